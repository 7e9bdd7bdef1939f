"""The Content-Security-Policy header."""

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.http import HttpResponse

from console.csp import ContentSecurityPolicyMiddleware


def test_nothing_is_allowed_but_this_site(rf):
    answer = ContentSecurityPolicyMiddleware(lambda request: HttpResponse("ok"))(rf.get("/"))

    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


def test_an_answer_keeps_the_stricter_policy_that_it_brought(rf):
    def sandboxed(request):
        return HttpResponse("ok", headers={"Content-Security-Policy": "sandbox"})

    answer = ContentSecurityPolicyMiddleware(sandboxed)(rf.get("/"))

    assert answer.headers["Content-Security-Policy"] == "sandbox"


def test_a_chain_of_coroutines_stays_one(rf):
    """A middleware that is only synchronous would cost every waiting request a thread."""

    async def waiting(request):
        return HttpResponse("ok")

    middleware = ContentSecurityPolicyMiddleware(waiting)

    assert iscoroutinefunction(middleware)
    answer = async_to_sync(middleware)(rf.get("/"))
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
