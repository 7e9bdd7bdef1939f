"""What an admin fills in: the profile of a server, the policy of a tool, a reason, a rollback, a share."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from console.reasons import ReasonField
from operations import registration
from operations.ledger import NewServer, ToolPolicy
from operations.queries import servers
from operations.queries.servers import ServerView

_SHORT = {"class": "inp short"}
_MONO = {"class": "inp mono", "autocomplete": "off", "spellcheck": "false"}


def _reason() -> forms.CharField:
    return ReasonField(
        label=lazy("Reason"),
        max_length=1000,
        widget=forms.Textarea(attrs={"class": "inp", "rows": 2}),
        help_text=lazy("At least 8 characters. Stays in the record of changes, with your name."),
    )


class ReasonForm(forms.Form):
    """Why an admin does it: it stands in the record of changes, and a refused caller may read it."""

    reason = _reason()


class ServerForm(forms.Form):
    """The profile of a server. The name is given once and never changes."""

    slug = forms.SlugField(
        label=lazy("Short name"),
        max_length=50,
        widget=forms.TextInput(attrs=_MONO | {"class": "inp mid mono"}),
        help_text=lazy("What call nodes write. It never changes."),
    )
    title = forms.CharField(label=lazy("Name for people"), max_length=200, widget=forms.TextInput({"class": "inp"}))
    url = forms.CharField(
        label=lazy("Address"),
        max_length=500,
        widget=forms.TextInput(_MONO),
        help_text=lazy("Such as https://tools.example.org/mcp"),
    )
    protocol = forms.ChoiceField(
        label=lazy("Protocol version"),
        widget=forms.Select({"class": "inp mid"}),
        help_text=lazy("Exactly one. It is never guessed from the address."),
    )
    credential_ref = forms.RegexField(
        r"^[A-Za-z_][A-Za-z0-9_]*$",
        label=lazy("Credential, by reference"),
        required=False,
        max_length=200,
        widget=forms.TextInput(_MONO | {"class": "inp mid mono"}),
        help_text=lazy("Name of the environment variable that holds the Authorization value. Never the value itself."),
        error_messages={"invalid": lazy("This is the name of an environment variable: letters, digits, underscores.")},
    )
    allow_private = forms.BooleanField(
        label=lazy("Its address may be a private one"),
        required=False,
        help_text=lazy("Otherwise only public addresses are connected to."),
    )
    moves = forms.BooleanField(
        label=lazy("It is the same server at a new address"),
        required=False,
        help_text=lazy("Its tasks have moved with it. Otherwise an address changes only when no call is under way."),
    )
    max_qps = forms.FloatField(
        label=lazy("Requests a second, at most"),
        min_value=0.01,
        max_value=10_000,
        initial=5,
        widget=forms.NumberInput(_SHORT | {"step": "any"}),
        help_text=lazy("Over all workers together."),
    )
    poll_floor_ms = forms.IntegerField(
        label=lazy("Shortest time between two looks"),
        min_value=100,
        max_value=3_600_000,
        initial=1000,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In milliseconds. A server that asks for more time gets it."),
    )
    poll_cap_ms = forms.IntegerField(
        label=lazy("Longest time between two looks"),
        min_value=1000,
        max_value=86_400_000,
        initial=60_000,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In milliseconds."),
    )
    lookup = forms.ChoiceField(
        label=lazy("Proved way to find a lost submit"),
        widget=forms.Select({"class": "inp mid"}),
        initial="none",
        help_text=lazy("Only what its operator vouches for. None: a lost submit goes to a person."),
    )
    lookup_tool = forms.CharField(
        label=lazy("Lookup tool"),
        required=False,
        max_length=200,
        widget=forms.TextInput(_MONO | {"class": "inp mid mono"}),
        help_text=lazy("For lookup_tool only: the server's read-only tool that takes our key and says found or not."),
    )
    quarantine_s = forms.IntegerField(
        label=lazy("How long a lost request may still travel"),
        min_value=0,
        max_value=86_400,
        initial=300,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds."),
    )
    key_window_s = forms.IntegerField(
        label=lazy("How long it honours a submission key"),
        min_value=0,
        max_value=31_536_000,
        initial=0,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds; 0: not at all."),
    )
    task_ttl_s = forms.IntegerField(
        label=lazy("How long we ask it to keep a task"),
        min_value=60,
        max_value=31_536_000,
        initial=86_400,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds."),
    )
    listens = forms.BooleanField(
        label=lazy("It asks people on a stream of its own"),
        required=False,
        help_text=lazy("Then one is held open for each call under way, as far as there is room."),
    )
    reason = _reason()

    def __init__(self, *args: Any, known: ServerView | None = None, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """Take the choices from what this installation speaks; `known` is the server that is changed."""
        super().__init__(*args, **named)
        self.known = known
        self._choices("protocol", registration.protocols())
        self._choices("lookup", registration.lookups())
        del self.fields["moves" if known is None else "slug"]

    def _choices(self, name: str, values: tuple[str, ...]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [(value, value) for value in values]

    def clean_slug(self) -> str:
        """Refuse a name that is taken: registering must never change a server by mistake."""
        slug: str = self.cleaned_data["slug"]
        if servers.server(slug) is not None:
            raise forms.ValidationError(_("A server of this name is registered. Change that one, or choose another."))
        return slug

    def clean(self) -> dict[str, object]:
        """The two bounds of looking must not cross."""
        floor, cap = self.cleaned_data.get("poll_floor_ms"), self.cleaned_data.get("poll_cap_ms")
        if floor is not None and cap is not None and cap < floor:
            self.add_error("poll_cap_ms", _("This must not be less than the shortest time."))
        return self.cleaned_data

    def profile(self) -> NewServer:
        """Return the profile as the ledger takes it."""
        given: dict[str, Any] = {
            name: value for name, value in self.cleaned_data.items() if name not in {"reason", "moves"}
        }
        if self.known is not None:
            given["slug"] = self.known.slug
        return NewServer(**given)


class PolicyForm(forms.Form):
    """What an admin decides about a tool; the rest comes from its server."""

    EFFECTS: ClassVar = [
        ("EXTERNAL", lazy("May have effects outside")),
        ("NONE", lazy("Free of side effects")),
    ]
    effect = forms.ChoiceField(
        label=lazy("Side effects"),
        choices=EFFECTS,
        widget=forms.Select({"class": "inp mid"}),
        help_text=lazy("Where effects are possible, a cancel or an unknown end opens an effect record."),
    )
    effect_on_error = forms.BooleanField(
        label=lazy("A tool error opens an effect record too"),
        required=False,
        help_text=lazy("For a tool that may stop half way."),
    )
    expected_s = forms.IntegerField(
        label=lazy("Expected duration"),
        min_value=1,
        max_value=31_536_000,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds. Only calls that run long go into a share of a new release."),
    )
    budget_s = forms.IntegerField(
        label=lazy("How long we wait"),
        min_value=1,
        max_value=31_536_000,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds, for a call that names no budget. Then a person takes over."),
    )
    answer_within_s = forms.IntegerField(
        label=lazy("Time to answer a question"),
        min_value=30,
        max_value=31_536_000,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds. When it is over, nothing is approved."),
    )
    sync_limit_s = forms.IntegerField(
        label=lazy("Published synchronous limit"),
        min_value=1,
        max_value=3600,
        required=False,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In seconds. Without task support the tool runs under it; without a limit it is refused."),
    )
    reason = _reason()

    def policy(self) -> ToolPolicy:
        """Return the policy as the ledger takes it."""
        return ToolPolicy(**{name: value for name, value in self.cleaned_data.items() if name != "reason"})


class ShareForm(forms.Form):
    """How much of the new long calls a release takes."""

    release = forms.CharField(max_length=50, widget=forms.HiddenInput)
    share = forms.IntegerField(
        label=lazy("Share of the new calls"),
        min_value=0,
        max_value=100,
        widget=forms.NumberInput(_SHORT),
        help_text=lazy("In per cent. 100 takes every call, less takes only long ones, 0 lets it drain."),
    )
    reason = _reason()


class TrialForm(forms.Form):
    """Which release is put on trial."""

    release = forms.CharField(max_length=50)
    reason = _reason()


class RollbackForm(forms.Form):
    """A rollback, confirmed by typing the version's name."""

    reason = _reason()
    typed = forms.CharField(
        label=lazy("Type the version"),
        max_length=100,
        widget=forms.TextInput(_MONO | {"class": "inp mid mono"}),
    )
    seen_epoch = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, version: str, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """`version` is what has to be typed."""
        super().__init__(*args, **named)
        self._version = version

    def clean_typed(self) -> str:
        """Compare letter by letter: this is the moment to notice that it is the wrong page."""
        typed: str = self.cleaned_data["typed"].strip()
        if typed != self._version:
            raise forms.ValidationError(_("Type exactly: %(words)s") % {"words": self._version})
        return typed
