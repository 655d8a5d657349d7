"""The resources as attributes of a CRM. What editors and type checkers know of them is in the stub
beside this module, attributes.pyi, which `python -m tests.generated` writes."""

from typing import Any


class ResourceAttributes:
    """Base of CRM: `crm.leads` and the other resources, made at the first use of one."""

    def __getattr__(self, name: str) -> Any:
        from crm.embedding.resources import resources_of

        if name.startswith("_") or name in ("app", "config"):
            raise AttributeError(name)
        resources = resources_of(self.app)
        if name not in resources:
            names = ", ".join(resources)
            raise AttributeError(f"a CRM has no {name}; its resources are {names}")
        vars(self).update(resources)
        return resources[name]
