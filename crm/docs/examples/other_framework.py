"""The CRM below /crm of a site made with another framework than Flask: any WSGI application.

    gunicorn other_framework:application

What `application` needs of the CRM's settings is in crm-data/crm.env, which the command `crm` reads
too: CRM_PUBLIC_URL=https://shop.example.ua/crm
"""

from werkzeug.middleware.dispatcher import DispatcherMiddleware

from crm import CRM


def site(environ, start_response):
    """Replace this by your site's application, such as Django's get_wsgi_application()."""
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"The shop"]


application = DispatcherMiddleware(site, {"/crm": CRM(tenant="acme", data="crm-data").app})
