"""Make the database refuse what the machine refuses, and give the outbox its order."""

from django.db import migrations

from operations import refusals


class Migration(migrations.Migration):
    dependencies = [("operations", "0001_pre_ledger")]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE outbox_seq AS bigint", "DROP SEQUENCE outbox_seq"),
        migrations.RunSQL(
            "ALTER TABLE due SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
            "ALTER TABLE due RESET (fillfactor, autovacuum_vacuum_scale_factor)",
        ),
        migrations.RunSQL(refusals.install(), migrations.RunSQL.noop),
    ]
