"""Say which API tokens there are."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from console import tokens


class Command(BaseCommand):
    help = "List the tokens, those that work first: their first characters, client, scopes, end, last use."

    def handle(self, **options: Any) -> None:
        now = timezone.now()
        for token in tokens.find(now=now):
            standing = f"{'works until' if token.works(now) else 'ended'} {token.expires_at:%Y-%m-%d}"
            if token.revoked_at:
                standing = f"revoked {token.revoked_at:%Y-%m-%d}"
            used = f"used {token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never used"
            scopes = ",".join(token.scopes)
            self.stdout.write(f"{token.prefix}… {token.client} {scopes}: {standing}, {used}")
