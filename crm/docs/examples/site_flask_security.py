"""The CRM in a site whose users log in by Flask-Security: the roles there are those in the CRM."""

from flask import Flask
from flask_security import Security, SQLAlchemyUserDatastore, current_user
from flask_security.models import fsqla_v3 as models
from flask_sqlalchemy import SQLAlchemy

from crm import CRM

ROLES = ("owner", "manager", "viewer")

app = Flask(__name__)
app.config.update(
    SECRET_KEY="change me",
    SECURITY_PASSWORD_SALT="change me too",
    SECURITY_PASSWORD_HASH="pbkdf2_sha512",  # needs no further package
    SQLALCHEMY_DATABASE_URI="sqlite:///shop.sqlite",
)
db = SQLAlchemy(app)
models.FsModels.set_db_info(db)


class Role(db.Model, models.FsRoleMixin):
    pass


class User(db.Model, models.FsUserMixin):
    pass


users = SQLAlchemyUserDatastore(db, User, Role)
security = Security(app, users)


def staff():
    """Who is logged in at the shop; a role of the same name gives access to the CRM."""
    if not current_user.is_authenticated:
        return None
    role = next((role for role in ROLES if current_user.has_role(role)), None)
    return {"id": current_user.fs_uniquifier, "name": current_user.email, "role": role}


crm = CRM(
    app,
    url_prefix="/crm",
    tenant="acme",
    current_user=staff,
    login_url="/login",
    logout_url="/logout",
)
