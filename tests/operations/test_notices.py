"""Somebody is woken: notices written with what they tell of, sent once a team and way, never in the way (item 8)."""

import base64
import hashlib
import hmac
import uuid
from datetime import UTC, datetime, time, timedelta

import pytest

from operations import ledger, notices
from operations.approval import Policy
from operations.ledger import NewRoute, Note
from operations.models import Notice, NoticeDelivery
from operations.notice import FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS, Kind, Quiet, Way, pause, sign
from operations.notices import Message
from tests.operations.mailroom import MailServer, Receiver
from tests.operations.room import break_commit

SECRET = "whsec_" + base64.b64encode(b"thirty-two bytes of a test secret").decode()
ENVIRON = {"HOOK_SECRET": SECRET}


def words(parcel):
    """Words of a test: the keys of what they are about."""
    keys = " ".join(item.key for item in parcel.items)
    return Message(subject=f"{parcel.kind.value} x {len(parcel.items)}", text=keys, link="https://here/", source="here")


@pytest.fixture
def mail(settings):
    server = MailServer()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
    yield server
    server.close()


@pytest.fixture
def hook():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def team(room):
    """A team that looks after the room's server, and a way to give it ways."""
    return Squad(room)


class Squad:
    def __init__(self, room, *, servers=None):
        self.room, self.slug = room, f"t-{uuid.uuid4().hex[:12]}"
        servers = [room.server] if servers is None else servers
        ledger.save_team(self.slug, title="Team", all_servers=False, servers=servers, note=self.note)

    @property
    def note(self):
        return Note(by="person:adam", reason="", now=self.room.now)

    def way(self, way, address, *, kinds=tuple(Kind), **named):
        named = {"secret_ref": "HOOK_SECRET", "allow_private": True} | named
        return ledger.save_route(
            NewRoute(team=self.slug, way=way, address=address, kinds=kinds, **named), note=self.note
        )

    def deliveries(self):
        return list(NoticeDelivery.objects.filter(route__team_id=self.slug).order_by("id"))


def pass_by(room):
    """One pass of the sender."""
    return notices.send_due(clock=lambda: room.now, words=words, environ=ENVIRON)


def told(operation):
    return [notice.kind for notice in Notice.objects.filter(operation_id=operation).order_by("id")]


def asked(room, policy=None):
    if policy:
        ledger.set_approval(policy, server=room.server, tool="tool", note=Note(by="a", reason="", now=room.now))
    operation = room.submit()
    room.answer_submit(operation, room.working(operation))
    room.saw(operation, room.asking(operation))
    return operation


class TestWritten:
    def test_a_round_that_opens(self, room):
        assert told(asked(room)) == ["ROUND_OPENED"]

    def test_the_same_question_seen_again_is_told_of_once(self, room):
        operation = asked(room)
        room.saw(operation, room.asking(operation))

        assert told(operation) == ["ROUND_OPENED"]

    def test_a_round_that_nobody_answered(self, room):
        operation = asked(room, Policy(escalate_to=""))
        room.now += timedelta(minutes=31)
        room.step(ledger.expire_round, operation, next_at=room.later())

        assert told(operation) == ["ROUND_OPENED", "ROUND_EXPIRED"]

    def test_an_operation_that_comes_before_a_person(self, room):
        from operations.machine import State

        assert told(room.at(State.UNKNOWN)) == ["UNKNOWN_OPENED"]

    def test_a_cancel_that_is_not_confirmed(self, room):
        from operations.machine import State

        operation = room.at(State.CANCEL_REQUESTED)
        room.step(ledger.state_unconfirmed, operation)

        assert told(operation) == ["CANCEL_UNCONFIRMED"]

    def test_in_the_same_transaction_or_not_at_all(self, room, monkeypatch):
        operation = room.submit()
        room.answer_submit(operation, room.working(operation))
        break_commit(monkeypatch, after=False, times=9)

        with pytest.raises(Exception, match="broke at COMMIT"):
            room.saw(operation, room.asking(operation))

        monkeypatch.undo()
        assert told(operation) == []
        assert room.row(operation).state == "WORKING"

    def test_no_argument_and_no_word_of_the_server_is_in_it(self, room):
        operation = room.submit(arguments=b'{"card": "4111-1111"}')
        room.answer_submit(operation, room.working(operation))
        room.saw(operation, room.asking(operation, "the secret is swordfish"))

        written = str(list(Notice.objects.filter(operation_id=operation).values()))

        assert "4111" not in written
        assert "swordfish" not in written


class TestTimeBringsIt:
    def test_each_reminder_once_and_the_last_one_escalates(self, room):
        leads = Squad(room, servers=[])
        operation = asked(room, Policy(remind_s=(900, 300), escalate_to=leads.slug))
        for minutes in (16, 1, 10, 1):
            room.now += timedelta(minutes=minutes)
            ledger.sweep_notices(now=room.now)

        near = Notice.objects.filter(operation_id=operation, kind="DEADLINE_NEAR").order_by("id")
        assert [notice.also for notice in near] == ["", leads.slug]

    def test_a_round_shorter_than_its_reminder_is_told_of_by_its_opening_alone(self, room):
        operation = asked(room, Policy(remind_s=(7200,)))
        ledger.sweep_notices(now=room.later())

        assert told(operation) == ["ROUND_OPENED"]

    def test_the_clock_of_the_desk_at_ten_and_at_fifteen_minutes(self, room):
        from operations.machine import State

        operation = room.at(State.UNKNOWN)
        for minutes in (9, 2, 1, 4, 5):
            room.now += timedelta(minutes=minutes)
            ledger.sweep_notices(now=room.now)

        assert told(operation) == ["UNKNOWN_OPENED", "CLOCK_10", "CLOCK_15"]


class TestSent:
    def test_by_mail(self, room, team, mail):
        team.way(Way.EMAIL, "ada@example.org, bob@example.org")
        operation = asked(room)

        pass_by(room)

        [letter] = mail.letters
        assert letter["To"] == "ada@example.org, bob@example.org"
        assert letter["Subject"] == "ROUND_OPENED x 1"
        assert operation in letter.get_payload(decode=True).decode()
        assert team.deliveries()[0].sent_at == room.now

    def test_once_and_not_again(self, room, team, mail):
        team.way(Way.EMAIL, "ada@example.org")
        asked(room)

        for _ in range(3):
            pass_by(room)
            room.now += timedelta(minutes=5)

        assert len(mail.letters) == 1

    def test_by_a_webhook_that_its_receiver_can_check(self, room, team, hook):
        team.way(Way.CHAT, hook.url)
        asked(room)

        pass_by(room)

        [(headers, body)] = hook.posts
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == expected
        assert headers["webhook-timestamp"] == str(int(room.now.timestamp()))
        assert set(hook.bodies[0]) == {"text"}
        assert "https://here/" in hook.bodies[0]["text"]

    def test_a_pager_is_told_how_grave_it_is_and_about_what(self, room, team, hook):
        from operations.machine import State

        team.way(Way.PAGER, hook.url)
        operation = room.at(State.CANCEL_REQUESTED)
        room.step(ledger.state_unconfirmed, operation)

        pass_by(room)

        [body] = hook.bodies
        assert body["event_action"] == "trigger"
        assert body["payload"]["severity"] == "critical"
        assert operation in body["dedup_key"]
        assert body["links"][0]["href"] == "https://here/"

    def test_many_of_one_kind_are_one_message(self, room, team, hook):
        """Two thousand unknown of one outage wake nobody two thousand times."""
        team.way(Way.CHAT, hook.url)
        for _ in range(5):
            asked(room)

        pass_by(room)

        assert [body["text"].splitlines()[0] for body in hook.bodies] == ["ROUND_OPENED x 5"]
        assert all(delivery.sent_at for delivery in team.deliveries())

    def test_only_what_a_way_wants_to_hear(self, room, team, hook):
        team.way(Way.CHAT, hook.url, kinds=("ROUND_EXPIRED",))
        asked(room)

        pass_by(room)

        assert hook.posts == []

    def test_only_teams_that_look_after_the_server(self, room, hook):
        Squad(room, servers=[]).way(Way.CHAT, hook.url)
        asked(room)

        pass_by(room)

        assert hook.posts == []

    def test_only_the_team_that_the_policy_names_and_the_escalation_beside_it(self, room, team, hook):
        leads, others = Squad(room, servers=[]), Squad(room)
        for squad in (team, leads, others):
            squad.way(Way.CHAT, hook.url)
        operation = asked(room, Policy(team=team.slug, escalate_to=leads.slug))
        room.now += timedelta(minutes=31)
        room.step(ledger.expire_round, operation, next_at=room.later())

        ledger.spread_notices(now=room.now)

        heard = [[one.notice.kind for one in squad.deliveries()] for squad in (team, leads, others)]
        assert heard == [["ROUND_OPENED", "ROUND_EXPIRED"], ["ROUND_EXPIRED"], []]


class TestNotSent:
    def test_a_mail_server_that_refuses_is_asked_again_later(self, room, team, mail):
        team.way(Way.EMAIL, "ada@example.org")
        asked(room)
        mail.refuses = True

        pass_by(room)
        [failed] = team.deliveries()
        mail.refuses = False
        room.now += FIRST_PAUSE
        pass_by(room)

        assert failed.next_at == room.now
        assert failed.error.startswith("the mail server did not take it: SMTPRecipientsRefused")
        assert "hunter2" not in failed.error
        assert [len(mail.letters), team.deliveries()[0].attempts, team.deliveries()[0].error] == [1, 2, ""]

    def test_a_webhook_that_fails_touches_no_operation(self, room, team, hook):
        team.way(Way.CHAT, hook.url)
        operation = asked(room)
        hook.status = 500
        before = room.row(operation), room.journal(operation)

        pass_by(room)

        assert team.deliveries()[0].error == "the webhook answered with 500"
        assert (room.row(operation), room.journal(operation)) == before
        assert room.answer(operation).decided

    def test_what_failed_for_good_stays_visible(self, room, team, hook):
        team.way(Way.CHAT, hook.url, kinds=("ROUND_EXPIRED",))
        operation = asked(room)
        room.now += timedelta(minutes=31)
        room.step(ledger.expire_round, operation, next_at=room.later())
        hook.status = 503

        for _ in range(MOST_ATTEMPTS + 3):
            pass_by(room)
            room.now += LONGEST_PAUSE

        [delivery] = team.deliveries()
        assert (delivery.attempts, delivery.next_at, delivery.sent_at) == (MOST_ATTEMPTS, None, None)
        assert len(hook.posts) == MOST_ATTEMPTS

    def test_a_private_address_that_nobody_allowed_is_not_connected_to(self, room, team, hook):
        team.way(Way.CHAT, hook.url, allow_private=False)
        asked(room)

        pass_by(room)

        assert hook.posts == []
        assert team.deliveries()[0].error.startswith("the webhook could not be reached")

    def test_without_its_secret_nothing_goes_out_unsigned(self, room, team, hook):
        team.way(Way.CHAT, hook.url, secret_ref="NO_SUCH_VARIABLE")
        asked(room)

        pass_by(room)

        assert hook.posts == []
        assert "NO_SUCH_VARIABLE" in team.deliveries()[0].error

    def test_a_sender_that_died_is_followed_by_another(self, room, team, hook):
        team.way(Way.CHAT, hook.url)
        asked(room)
        ledger.spread_notices(now=room.now)
        ledger.claim_parcels(now=room.now)  # and dies here

        pass_by(room)
        meanwhile = len(hook.posts)
        room.now += timedelta(minutes=3)
        pass_by(room)

        assert (meanwhile, len(hook.posts)) == (0, 1)

    def test_a_question_that_was_answered_meanwhile_wakes_nobody(self, room, team, hook):
        team.way(Way.CHAT, hook.url)
        operation = asked(room)
        room.answer(operation)

        pass_by(room)

        assert hook.posts == []
        assert team.deliveries()[0].error == "it was over before this could be sent"


class TestQuietHours:
    NIGHT = Quiet(start=time(22), end=time(7), zone="Europe/Berlin")

    @pytest.mark.parametrize(
        "now, ends",
        [
            (datetime(2026, 11, 29, 21, 30, tzinfo=UTC), datetime(2026, 11, 30, 6, 0, tzinfo=UTC)),
            (datetime(2026, 11, 29, 3, 0, tzinfo=UTC), datetime(2026, 11, 29, 6, 0, tzinfo=UTC)),
            (datetime(2026, 11, 29, 6, 0, tzinfo=UTC), None),
            (datetime(2026, 11, 29, 20, 59, tzinfo=UTC), None),
            # The night in which clocks go forward is an hour shorter.
            (datetime(2026, 3, 28, 23, 0, tzinfo=UTC), datetime(2026, 3, 29, 5, 0, tzinfo=UTC)),
        ],
    )
    def test_they_reach_over_midnight_in_their_own_zone(self, now, ends):
        assert self.NIGHT.ends_at(now) == ends

    def test_equal_ends_are_no_quiet_hours(self):
        assert Quiet(start=time(7), end=time(7), zone="UTC").ends_at(datetime(2026, 1, 1, 7, tzinfo=UTC)) is None

    def test_what_waits_goes_out_afterwards(self, room, team, hook):
        start, end = room.now.time(), (room.now + timedelta(minutes=10)).time()
        team.way(Way.CHAT, hook.url, quiet_from=start, quiet_until=end)
        asked(room)

        pass_by(room)
        held = team.deliveries()[0]
        room.now += timedelta(minutes=10)
        pass_by(room)

        assert (held.next_at, held.attempts) == (room.now, 0)
        assert len(hook.posts) == 1


def test_the_pauses_grow_and_end():
    pauses = [pause(attempts) for attempts in range(1, MOST_ATTEMPTS + 1)]

    assert pauses[0] == FIRST_PAUSE
    assert pauses[-2] == LONGEST_PAUSE
    assert pauses[-1] is None
    assert pauses[:-1] == sorted(wait for wait in pauses if wait)


def test_a_signature_is_the_one_that_the_standard_gives():
    """The example that Standard Webhooks publishes."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'

    signature = sign(secret, message="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=body)

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
