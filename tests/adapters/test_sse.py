import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sse import Event, EventReader, OversizedEvent

BOM = b"\xef\xbb\xbf"


def read(*chunks, **options):
    reader = EventReader(**options)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def datas(*chunks):
    return [event.data for event in read(*chunks)]


def test_b112_a_stream_that_ends_without_an_event_gives_none():
    assert read(b": ok\n\n") == []


def test_an_event_that_the_end_cuts_off_is_never_given_out():
    assert datas(b'data: {"a":1}\n\ndata: {"b":2}\n') == [b'{"a":1}']


def test_b114_comments_are_skipped():
    assert read(*[b": ping\n\n"] * 1000) == []


@pytest.mark.parametrize("chunks", [(BOM + b"data: x\n\n",), (BOM[:1], BOM[1:2], BOM[2:] + b"data: x\n\n")])
def test_b115_one_leading_byte_order_mark_is_dropped(chunks):
    assert datas(*chunks) == [b"x"]


def test_b115_a_second_byte_order_mark_belongs_to_the_field_name():
    assert datas(BOM + BOM + b"data: x\n\ndata: y\n\n") == [b"y"]


@pytest.mark.parametrize(
    "chunks",
    [
        (b"data: x\r\n\r\n",),
        (b"data: x\r\r",),
        (b"data: x\n\n",),
        (b"data: x\r", b"\n\r", b"\n"),
        (b"data: x\r", b"\r"),
        (b"data: x\r\n", b"\r\n"),
        (b"data: x\n\r\n",),
    ],
)
def test_b116_every_line_ending_in_every_cut_gives_one_event(chunks):
    assert datas(*chunks, b"data: y\n\n") == [b"x", b"y"]


def test_b116_a_line_end_cut_in_two_is_one_line_end():
    assert datas(b"data: x\r", b"\ndata: y\n\n") == [b"x\ny"]


def test_b117_a_character_cut_by_the_network_arrives_whole():
    raw = 'data: {"text":"é✅任务"}\n\n'.encode()

    assert datas(*(raw[i : i + 1] for i in range(len(raw)))) == datas(raw) == ['{"text":"é✅任务"}'.encode()]


def test_b119_a_priming_event_is_no_event_but_moves_the_cursor():
    reader = EventReader()

    assert list(reader.feed(b"id: 1\nretry: 3000\ndata:\n\n")) == []
    assert (reader.last_event_id, reader.retry_ms) == ("1", 3000)
    assert list(reader.feed(b"data: {\ndata:  1}\n\n")) == [Event(data=b"{\n 1}", id="1")]


def test_names_and_ids_follow_the_grammar():
    events = read(b"event: note\nid: a\ndata: 1\n\ndata\ndata: 2\nid\n\nid: b\0c\ndata: 3\n\nunknown: x\n\n")

    assert events == [
        Event(data=b"1", name="note", id="a"),
        Event(data=b"\n2"),
        Event(data=b"3"),
    ]


@pytest.mark.parametrize("retry", [b"-1", b"1e3", b"soon", b"", b"9" * 30])
def test_a_retry_that_is_no_number_is_ignored(retry):
    reader = EventReader()

    list(reader.feed(b"retry: " + retry + b"\n\n"))

    assert reader.retry_ms is None


@pytest.mark.parametrize(
    "chunks",
    [[b"data: " + b"x" * 101], [b"data: " + b"x" * 50 + b"\n"] * 3, [b":" + b"x" * 60, b"x" * 60], [b"x" * 9] * 20],
    ids=["one line", "many lines", "comment", "dripping"],
)
def test_an_event_over_its_cap_is_refused_while_it_arrives(chunks):
    with pytest.raises(OversizedEvent):
        read(*chunks, max_event_bytes=100)


def test_many_small_events_are_not_one_large_one():
    assert len(read(*[b"data: " + b"x" * 50 + b"\n\n"] * 50, max_event_bytes=100)) == 50


def test_a_resumed_stream_starts_from_its_cursor():
    reader = EventReader(last_event_id="7")

    assert list(reader.feed(b"data: 1\n\n")) == [Event(data=b"1", id="7")]


@given(
    st.lists(st.sampled_from([b"data: a", b"data", b"\r\n", b"\n", b"\r", b"id: 1", b":c", b"\xff", BOM, b"retry: 5"])),
    st.data(),
)
def test_where_the_network_cuts_never_matters(pieces, data):
    raw = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    assert read(*chunks) == read(raw)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(raw):
    read(raw, raw)
