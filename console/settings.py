"""Settings, read once from the environment. A value that cannot be read stops the start.

Variables: DATABASE_URL, CELERY_BROKER_URL, SECRET_KEY, ALLOWED_HOSTS, LONGCALL_HOME, LONGCALL_ORIGIN, LONGCALL_TLS,
LONGCALL_DEBUG, LONGCALL_POOL, LONGCALL_BEAT, LONGCALL_DEMO_PORT, LONGCALL_METRICS_TOKEN, LONGCALL_SMTP,
LONGCALL_SMTP_USER, LONGCALL_SMTP_PASSWORD, LONGCALL_SMTP_STARTTLS, LONGCALL_MAIL_FROM.
"""

import os
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from console.ground import home as run_folder


def env_bool(name: str, *, default: bool) -> bool:
    """Return the variable as yes or no; fail on anything that is neither."""
    text = os.environ.get(name, "").strip().lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    if text:
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {text!r}")
    return default


def env_int(name: str, *, default: int, least: int = 0) -> int:
    """Return the variable as a whole number; fail on anything else and on one below `least`."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ImproperlyConfigured(f"{name} must be a whole number of at least {least}, not {text!r}")
    return int(text)


def env_list(name: str, *, default: list[str]) -> list[str]:
    """Return the variable split at commas."""
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()] or default


SESSION = "-c plan_cache_mode=force_generic_plan -c idle_in_transaction_session_timeout=120s -c lock_timeout=60s"
"""What every connection of ours asks of PostgreSQL.

What is prepared is prepared to be planned once. Left to itself the server plans the ledger's joins anew at every
step: it takes the plan for one known row for cheaper, and to find that out costs more than to run it eight times.
A process that was stopped inside a transaction holds its operation for two minutes and no longer, and nobody waits
for a lock for ever (B222).
"""


def database(conninfo: str, *, pool: int) -> dict[str, Any]:
    """Turn a postgres:// URL or libpq connection string into Django's form; `pool` 0 means one connection a thread."""
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from error
    session = f"{SESSION} {parts.pop('options', '')}".strip()
    options: dict[str, Any] = {"application_name": "longcall", "options": session}
    if pool:
        options["pool"] = {"min_size": 1, "max_size": pool, "timeout": 10}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", "longcall"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        # Without the check every connection that a database restart broke costs one error.
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": 0,
        "OPTIONS": options | parts,
    }


HOME = run_folder.from_environment()
DEBUG = env_bool("LONGCALL_DEBUG", default=False)
SECRET_KEY = os.environ.get("SECRET_KEY") or HOME.secret_key()

# --- Who may call us --------------------------------------------------------------------------------------------

TLS = env_bool("LONGCALL_TLS", default=False)
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
# The address people type, e.g. https://longcall.example.org. Needed behind a proxy that ends TLS.
ORIGIN = os.environ.get("LONGCALL_ORIGIN", "").rstrip("/")
CSRF_TRUSTED_ORIGINS = [ORIGIN] if ORIGIN else []

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
SECURE_SSL_REDIRECT = TLS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TLS else None
# Without LONGCALL_TLS the product runs on one machine over plain HTTP, and says so here instead of in every check.
SILENCED_SYSTEM_CHECKS = [] if TLS else ["security.W004", "security.W008", "security.W012", "security.W016"]
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# Named as in Django 6, so that the move to its own middleware is one line.
SECURE_CSP = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "img-src": ["'self'"],
    "font-src": ["'self'"],
    "connect-src": ["'self'"],
    "form-action": ["'self'"],
    "frame-ancestors": ["'none'"],
    "base-uri": ["'none'"],
}

# --- What it is made of -----------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "operations",
    "console",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.csp.ContentSecurityPolicyMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "console.preferences.PreferencesMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.witness.AuditMiddleware",
    "console.signposts.SignpostMiddleware",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [run_folder.PROJECT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.shell",
            ],
            "builtins": ["console.templatetags.sentences"],
        },
    },
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# --- The ledger's database --------------------------------------------------------------------------------------

# LONGCALL_POOL is set by console.asgi: requests share few connections there (the server's default limit is 100).
DATABASES = {
    "default": database(
        os.environ.get("DATABASE_URL") or HOME.running_services().get("DATABASE_URL") or "postgres:///longcall",
        pool=env_int("LONGCALL_POOL", default=0),
    ),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Pages ------------------------------------------------------------------------------------------------------

TIME_ZONE = "UTC"
USE_TZ = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [HOME.locale]  # compiled by `prepare`
STATIC_URL = "/static/"
STATIC_ROOT = HOME.static
# The manifest needs `collectstatic`, which `up` runs; under LONGCALL_DEBUG files come straight from the checkout.
STATIC_BACKEND = "django.contrib.staticfiles.storage.StaticFilesStorage"
if not DEBUG:
    STATIC_BACKEND = "servestatic.storage.CompressedManifestStaticFilesStorage"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},  # nothing is ever uploaded
    "staticfiles": {"BACKEND": STATIC_BACKEND},
}
SERVESTATIC_USE_FINDERS = DEBUG
SERVESTATIC_AUTOREFRESH = False

# --- Background work: the ledger is the queue, Celery is the pool of hands ----------------------------------------

# task name -> how often. Every entry expires before it repeats twice: a stopped worker must not replay a backlog.
BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "drive": {"task": "operations.tasks.drive", "schedule": 1.0, "options": {"expires": 2}},
    "desk": {"task": "console.tasks.desk", "schedule": 2.0, "options": {"expires": 4}},
    "notify": {"task": "console.tasks.notify", "schedule": 5.0, "options": {"expires": 8}},
    "watch": {"task": "operations.tasks.watch", "schedule": 60.0, "options": {"expires": 50}},
}
BEAT = env_bool("LONGCALL_BEAT", default=True)  # the schedule runs in a thread of this worker

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL") or HOME.running_services().get("CELERY_BROKER_URL")
CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE
CELERY_TIMEZONE = "UTC"
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "longcall"
# A lost message costs one tick, a message run twice costs a claim that finds nothing: no acknowledgement games.
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker that is away delays, it never ends a worker

# Notices by mail go through this server; unset, they wait and say so (LONGCALL_SMTP: host or host:port).
_smtp = os.environ.get("LONGCALL_SMTP", "").strip()
EMAIL_HOST, _, _smtp_port = _smtp.partition(":")
EMAIL_PORT = int(_smtp_port) if _smtp_port.isascii() and _smtp_port.isdigit() else 25
EMAIL_HOST_USER = os.environ.get("LONGCALL_SMTP_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("LONGCALL_SMTP_PASSWORD", "")
EMAIL_USE_TLS = env_bool("LONGCALL_SMTP_STARTTLS", default=bool(EMAIL_HOST_USER))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("LONGCALL_MAIL_FROM", "longcall@localhost")

# Where `up` runs the demo's tool servers on this machine; `demo_seed` registers them under it.
DEMO_PORT = env_int("LONGCALL_DEMO_PORT", default=8765)

# Whoever collects /metrics sends this as a bearer token. Unset: there is no such page.
METRICS_TOKEN = os.environ.get("LONGCALL_METRICS_TOKEN", "")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "console.logs.Line", "fmt": "{asctime} {levelname} {name} {message}", "style": "{"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"operations": {"level": "INFO"}, "console": {"level": "INFO"}, "adapters": {"level": "INFO"}},
}
