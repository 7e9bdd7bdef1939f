"""The embedded broker: Celery's own transport reaches it, nobody else does."""

import kombu
import pytest

from console.ground.valkey import Broker


@pytest.fixture
def broker(where):
    broker = Broker(where)
    broker.start()
    yield broker
    broker.stop()


def test_a_message_goes_in_and_comes_out_by_celerys_transport(broker):
    with kombu.Connection(broker.url) as connection:
        queue = connection.SimpleQueue("ticks")
        queue.put({"tick": 1})

        message = queue.get(timeout=60)

        assert message.payload == {"tick": 1}
        message.ack()
        queue.close()


def test_it_has_no_network_address_and_keeps_nothing_on_disk(broker):
    with kombu.Connection(broker.url) as connection:
        options = connection.default_channel.client.config_get("*")

    assert options["port"] == "0"
    assert options["save"] == ""
    assert options["appendonly"] == "no"


def test_it_starts_again_after_a_stop_under_the_same_url(broker):
    url = broker.url

    broker.stop()
    assert not broker.is_running()
    broker.start()

    assert broker.url == url
    with kombu.Connection(url) as connection:
        assert connection.default_channel.client.ping()
