"""The database that the tests get."""

import pytest
from django.db import connection


@pytest.mark.django_db
def test_the_test_database_is_a_current_postgresql_without_a_network_address():
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        (version,) = cursor.fetchone()
        cursor.execute("SHOW listen_addresses")
        (addresses,) = cursor.fetchone()

    assert int(version) >= 140000
    assert addresses == ""
