"""Every address of the site."""

from django.urls import URLPattern, URLResolver, include, path

from console.api import health
from console.views import adapters, approvals, home, operations, reconcile, servers
from console.views import help as help_

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("login/", home.login, name="login"),
    path("logout/", home.logout, name="logout"),
    path("places/", home.places, name="places"),
    path("preferences/", home.remember, name="preferences"),
    path("try/", home.try_it, name="try_it"),
    path("operations/", operations.listing, name="operations"),
    path("operations/rows/", operations.rows, name="operation_rows"),
    path("operations/news/", operations.news, name="operation_news"),
    path("operations/<uuid:number>/", operations.detail, name="operation"),
    path("operations/<uuid:number>/look/", operations.look_now, name="look_now"),
    path("operations/<uuid:number>/cancel/", operations.cancel, name="cancel"),
    path("operations/<uuid:number>/evidence/<int:seq>/", operations.evidence, name="evidence"),
    path("reconcile/", reconcile.listing, name="reconcile"),
    path("reconcile/<uuid:number>/", reconcile.item, name="reconcile_item"),
    path("reconcile/<uuid:number>/claim/", reconcile.take, name="claim"),
    path("reconcile/<uuid:number>/verdict/", reconcile.judge, name="judge"),
    path("reconcile/<uuid:number>/second/", reconcile.second, name="second"),
    path("reconcile/<uuid:number>/effect/", reconcile.settle_effect, name="settle_effect"),
    path("help/", help_.page, name="help"),
    path("adapters/", adapters.listing, name="adapters"),
    path("adapters/<slug:version>/", adapters.page, name="adapter"),
    path("adapters/<slug:version>/share/", adapters.share, name="adapter_share"),
    path("adapters/<slug:version>/switch/", adapters.switch, name="adapter_switch"),
    path("adapters/<slug:version>/retire/", adapters.retire, name="adapter_retire"),
    path("adapters/<slug:version>/rollback/", adapters.rollback, name="adapter_rollback"),
    path("adapters/<slug:version>/drain/", adapters.drain, name="adapter_drain"),
    path("servers/", servers.listing, name="servers"),
    path("servers/new/", servers.register, name="server_new"),
    path("servers/<slug:slug>/", servers.page, name="server"),
    path("servers/<slug:slug>/edit/", servers.edit, name="server_edit"),
    path("servers/<slug:slug>/test/", servers.test, name="server_test"),
    path("servers/<slug:slug>/negotiate/", servers.negotiate, name="server_negotiate"),
    path("servers/<slug:slug>/switch/", servers.switch, name="server_switch"),
    path("servers/<slug:slug>/tools/<path:name>/policy/", servers.policy, name="tool_policy"),
    path("servers/<slug:slug>/tools/<path:name>/", servers.tool, name="tool"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:operation>/<int:number>/", approvals.round_, name="round"),
    path("approvals/<uuid:operation>/<int:number>/claim/", approvals.round_claim, name="round_claim"),
    path("approvals/<uuid:operation>/<int:number>/extend/", approvals.round_extend, name="round_extend"),
    path("livez", health.livez, name="livez"),
    path("api/v1/", include("console.api.urls")),
    path("readyz", health.readyz, name="readyz"),
]
