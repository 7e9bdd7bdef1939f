"""Every address of the site."""

from django.urls import URLPattern, URLResolver, include, path

from console.api import health
from console.views import home

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("login/", home.login, name="login"),
    path("logout/", home.logout, name="logout"),
    path("places/", home.places, name="places"),
    path("preferences/", home.remember, name="preferences"),
    path("livez", health.livez, name="livez"),
    path("api/v1/", include("console.api.urls")),
    path("readyz", health.readyz, name="readyz"),
]
