"""The CRM below /crm of a Django site, and a view of Django that calls it in Python.

    CRM_PUBLIC_URL=https://shop.example.ua/crm gunicorn site_django:application

The CRM has its own login here. In a project of yours the settings, `urlpatterns` and the last lines
stand in settings.py, urls.py and wsgi.py.
"""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from crm import CRM

if not settings.configured:
    settings.configure(
        SECRET_KEY="change me",
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["shop.example.ua", "127.0.0.1"],
    )

crm = CRM(tenant="acme", data="crm-data")


def home(request):
    return HttpResponse("The shop")


@require_POST
def ask(request):
    with crm.tenant():
        lead = crm.leads.create(name=request.POST["name"], phone=request.POST["phone"])
    return JsonResponse({"lead": lead["id"]})


urlpatterns = [path("", home), path("ask", ask)]
application = DispatcherMiddleware(get_wsgi_application(), {"/crm": crm.app})
