"""After a test with real commits, empty what it has filled and nothing else.

Django empties every table after each such test and then makes its permissions and content types anew. That takes
longer than most tests do, and there are thousands of them. Here the few rows that a test left are deleted, in one
statement, and those two tables are kept. Deleting few rows is quicker than giving a table and its indexes new files;
the ledger's own refusals to delete are switched off for it.
"""

from django.db import connections
from django.test import TransactionTestCase

EMPTY = """DO $$
DECLARE
    name text;
    has_rows boolean;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()
        AND tablename NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || name || ')' INTO has_rows;
        IF has_rows THEN EXECUTE 'DELETE FROM ' || name; END IF;
    END LOOP;
END $$"""


def empty(alias="default"):
    """Delete every row that was committed to this database."""
    with connections[alias].cursor() as cursor:
        cursor.execute(EMPTY)


def _teardown(case):
    for alias in case._databases_names(include_mirrors=False):
        empty(alias)


def pytest_configure(config):
    """Take the place of Django's way, for every test of this run."""
    TransactionTestCase._fixture_teardown = _teardown
