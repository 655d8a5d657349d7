"""The CRM below /crm of a FastAPI site, and a route of FastAPI that calls it in Python.

    CRM_PUBLIC_URL=https://shop.example.ua/crm uvicorn site_fastapi:app

The CRM has its own login here. It is a WSGI application, which a2wsgi runs in threads; a route that
calls it in Python is a plain function, not `async`, so that FastAPI runs it in a thread too.
"""

from a2wsgi import WSGIMiddleware
from fastapi import FastAPI
from pydantic import BaseModel

from crm import CRM

app = FastAPI()
crm = CRM(tenant="acme", data="crm-data")


class Question(BaseModel):
    name: str
    phone: str


@app.get("/")
def home():
    return {"shop": "open"}


@app.post("/ask")
def ask(question: Question):
    with crm.tenant():
        lead = crm.leads.create(name=question.name, phone=question.phone)
    return {"lead": lead["id"]}


app.mount("/crm", WSGIMiddleware(crm.app))
