"""The parts that every page is made of: `{% load longcall %}`.

{% icon "inbox" %}                       {% icon "ok" "tone ok" %}
{% badge op.state asked=op.asked %}      our state; {% badge op.state word="Cancel not confirmed" %}
{% mark "wait" "warn" "cooperative" %}   any other filled badge
{% proto op.protocol_status %}           the server's word, quoted and never filled (L6)
{% ident op.id %}                        an id, shortened in the middle, with its copy button
{% when at %}  {% when at "time" %}      a moment: relative, or as a time of day; the full time with zone in title
{% clock until limit=900 %}              what is left of `limit` seconds, with a ring
{{ span|duration }}  {{ n|filesize }}    numbers in words
{{ text|shortened }}                     the middle cut out
{% address "operation" row.id %}         what {% url %} gives, at a tenth of its cost: for the rows of a list
{% translate "Audit" %}                  as Django's, loaded before it: a constant is said once for each language
"""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from urllib.parse import quote_plus

from django import template
from django.http import QueryDict
from django.templatetags.static import static
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console import bulk, history, markup, pictures, preferences, releases, words
from console.markup import filled
from console.templatetags import translated
from operations.queries import CAP, Asked, desk
from operations.queries.operations import Odds, Row
from operations.rollout import Mode

register = template.Library()
register.tags |= translated.register.tags

_CALM_S, _LATE_S = 600, 300


def _now(context: template.Context) -> datetime:
    given = context.get("now")
    return given if isinstance(given, datetime) else timezone.now()


@register.simple_tag
@functools.cache
def icon(name: str, extra: str = "") -> SafeString:
    """Draw one icon of static/icons.svg."""
    return filled(
        '<svg class="{}" viewBox="0 0 16 16" aria-hidden="true"><use href="{}#{}"></use></svg>',
        f"i {extra}".strip(),
        static("icons.svg"),
        name,
    )


@register.simple_tag
def mark(tone: str, symbol: str, word: str) -> SafeString:
    """Draw a filled badge: a mode or a warning word."""
    return filled('<span class="badge {}">{}{}</span>', tone, icon(symbol), word)


@register.simple_tag
def badge(state: str, word: str = "", outcome: str | None = None, asked: str = "") -> SafeString:
    """Draw our state of an operation."""
    look = words.look_of(state, outcome=outcome, asked=asked)
    return mark(look.tone, look.icon, word or str(look.word))


@register.simple_tag
def tone(state: str, outcome: str | None = None, asked: str = "") -> str:
    """Return the tone of a state, for the class of a larger part."""
    return words.look_of(state, outcome=outcome, asked=asked).tone


@register.simple_tag
def state_icon(state: str, outcome: str | None = None, asked: str = "") -> SafeString:
    """Draw the icon of a state."""
    return icon(words.look_of(state, outcome=outcome, asked=asked).icon)


@register.filter
def state_word(state: str) -> str:
    """Return the word of a state."""
    return str(words.look_of(state).word)


@register.simple_tag
def proto(word: str | None) -> SafeString:
    """Quote the server's word for its task; say so where it has said nothing."""
    if not word:
        return filled('<span class="dim">{}</span>', gettext("nothing yet"))
    return filled('<span class="proto">{}</span>', word)


@register.simple_tag
def ident(value: object, head: int = 8, tail: int = 4) -> SafeString:
    """Show an id, shortened, with a button that copies all of it."""
    text = str(value)
    return filled(
        '<span class="id" title="{0}">{1}</span><button class="copy" type="button" data-copy="{0}"'
        ' aria-label="{2}" hidden>{3}</button>',
        text,
        words.shortened(text, head=head, tail=tail),
        gettext("Copy %(id)s") % {"id": text},
        icon("copy"),
    )


_TICKS = {
    form: SafeString(f' data-tick="{tick}"') for form, tick in (("relative", "rel"), ("left", "left"), ("due", "due"))
}


@register.simple_tag(takes_context=True)
def when(context: template.Context, at: datetime | None, form: str = "relative") -> SafeString:
    """Show a moment. `form`: relative ("19 min ago"), left ("3 min 41 s"), due, age ("19 min"), time ("16:13:06")."""
    if at is None:
        return filled('<span class="dim">{}</span>', gettext("never"))
    return filled(
        '<time datetime="{}" title="{}"{}>{}</time>',
        at.isoformat(timespec="seconds"),
        words.absolute(at),
        _TICKS.get(form, ""),
        _moment(at, form=form, now=_now(context)),
    )


def _moment(at: datetime, *, form: str, now: datetime) -> str:
    match form:
        case "left":
            return _left(at - now)
        case "age":
            return words.coarse(abs(now - at))
        case "time":
            return _time_of_day(at, now=now)
        case "due" if at - now < timedelta(seconds=1):
            return gettext("is due")
        case _:
            return words.relative(at, now=now)


def _left(span: timedelta) -> str:
    if span < timedelta():
        return gettext("over by %(span)s") % {"span": words.duration(-span)}
    return words.duration(span)


def _time_of_day(at: datetime, *, now: datetime) -> str:
    local = timezone.localtime(at)
    if local.date() == timezone.localtime(now).date():
        return f"{local:%H:%M:%S}"
    return f"{local:%Y-%m-%d %H:%M:%S}"


@register.simple_tag(takes_context=True)
def clock(context: template.Context, until: datetime, limit: float, extra: str = "", note: str = "") -> SafeString:
    """Show what is left until a moment, as a ring over `limit` seconds: grey, amber below 10 min, red below 5."""
    left = (until - _now(context)).total_seconds()
    shade = "off" if left >= _CALM_S else "wait" if left >= _LATE_S else "bad"
    words_of_it = when(context, until, "left")
    return filled(
        '<span class="{}">{}{}</span>',
        f"clock {extra} {shade}".replace("  ", " "),
        pictures.ring(left / limit if left > 0 and limit else 1),
        filled("<span><b>{}</b><span>{}</span></span>", words_of_it, note)
        if note
        else filled("<b>{}</b>", words_of_it),
    )


@register.simple_tag(takes_context=True)
def life(context: template.Context, row: Row) -> SafeString:
    """Draw the line of life of a row: how much of the wait budget is used, and when it was asked something."""
    whole = (row.budget_ends_at - row.created_at).total_seconds() or 1.0
    end = row.entered_at if row.is_final else _now(context)
    return pictures.lifeline(
        tone=words.look_of(row.state, outcome=row.outcome, asked=row.asked).tone,
        share=(end - row.created_at).total_seconds() / whole,
        marks=[(at - row.created_at).total_seconds() / whole for at in row.rounds_opened_at],
        ended=row.is_final,
    )


@register.simple_tag(takes_context=True)
def next_of(context: template.Context, row: Row) -> SafeString:
    """Say what a row waits for, in a few words."""
    if row.is_final:
        return filled("{} {}", gettext("over"), when(context, row.entered_at))
    if row.round_deadline_at is not None:
        return _toned(context, row.round_deadline_at, gettext("left"))
    if row.asked is Asked.ANSWERED and row.is_parked:
        return filled("{} {}", gettext("goes on"), when(context, row.due_at, "due"))
    if row.state in desk.BEFORE_A_PERSON:
        return _toned(context, row.entered_at + desk.CLOCK, gettext("left"))
    if row.cancel_requested_at is not None:
        return filled(
            "{} {}{}", gettext("asked"), when(context, row.cancel_requested_at), gettext(", not yet honoured")
        )
    if row.is_parked:
        return filled("{}", gettext("waits for a person"))
    if row.due_at is None:
        return filled("{}", gettext("being looked at"))
    return filled("{} {}", gettext("look"), when(context, row.due_at, "due"))


@register.simple_tag
def odds_bar(odds: Odds) -> SafeString:
    """Draw how cancels ended, with the same figures in its label."""
    label = gettext("%(cancelled)d cancelled, %(finished)d finished first, %(person)d went to a person") % {
        "cancelled": odds.cancelled,
        "finished": odds.finished,
        "person": odds.person,
    }
    return pictures.stacked([("off", odds.cancelled), ("ok", odds.finished), ("unk", odds.person)], label=label)


@register.simple_tag
def share_bar(percent: int) -> SafeString:
    """Draw a share of the new calls."""
    return pictures.share(percent)


@register.simple_tag
def drain_bar(gone: int, left: int) -> SafeString:
    """Draw how much of a rollback has drained, with the same figures in its label."""
    label = gettext("%(gone)d have ended, %(left)d are left") % {"gone": gone, "left": left}
    return pictures.stacked([("ok", gone), ("wait", left)], label=label)


@register.simple_tag
def release_mode(mode: str) -> SafeString:
    """Draw what a release does for new calls."""
    look = releases.MODES[Mode(mode)]
    return mark(look.tone, look.icon, str(look.word))


def _toned(context: template.Context, until: datetime, what: str) -> SafeString:
    left = (until - _now(context)).total_seconds()
    shade = "off" if left >= _CALM_S else "wait" if left >= _LATE_S else "bad"
    text = when(context, until, "left")
    return filled('<span class="tone {}">{}{}</span>', shade, text, f" {what}" if left > 0 else "")


@register.filter
def capped(count: int) -> str:
    """Say a count that stops at the cap: "1 000+"."""
    return f"{CAP // 1000}{words.NBSP}000+" if count >= CAP else str(count)


@register.filter
def batch_word(code: str) -> str:
    """Say a row's forecast, result or refusal."""
    return bulk.in_words(code)


@register.filter
def person(actor: str) -> str:
    """Say who acted, without the kind: "olga" of "person:olga"."""
    return history.actor_words(actor) or actor


@register.filter
def fact(name: str) -> str:
    """Say what an effect record knows of what happened outside."""
    return history.fact_words(name)


@register.filter
def duration(span: timedelta | float) -> str:
    """Say a span (timedelta or seconds) in words."""
    return words.duration(span)


@register.filter
def pace(milliseconds: int) -> str:
    """Say a number of milliseconds in seconds and more."""
    return words.pace(milliseconds)


@register.filter
def protocol(version: str) -> str:
    """Name a protocol version with its family."""
    return words.protocol(version)


@register.filter
def filesize(count: int) -> str:
    """Say a number of bytes in words."""
    return words.size(count)


@register.filter
def shortened(text: object) -> str:
    """Cut the middle out of an id or a digest."""
    return words.shortened(str(text))


@register.simple_tag
@functools.lru_cache(maxsize=32)
def zone_options(chosen: str) -> SafeString:
    """Write out every time zone of this machine as an option. They stand on every page, and there are hundreds."""
    return markup.filled_each(
        "<option{}>{}</option>",
        [(SafeString(" selected" if zone == chosen else ""), zone) for zone in preferences.zones()],
    )


@register.simple_tag
def address(name: str, *parts: object) -> str:
    """Return the address of a page by its route's name."""
    return markup.address(name, *parts)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """Return this page's query string with some parameters changed; None or "" takes one off, paging always goes."""
    given: QueryDict = context["request"].GET
    kept = {name: values for name, values in given.lists() if name != "after"} if given else {}
    for name, value in changes.items():
        if value is None or value == "":
            kept.pop(name, None)
        else:
            kept[name] = [str(value)]
    pairs = [f"{quote_plus(name)}={quote_plus(value)}" for name, values in kept.items() for value in values]
    return f"?{'&'.join(pairs)}"
