import hashlib
_store = {}
def declare_users(table): pass
class C:
    def add(self, file):
        d = file.read(); h = hashlib.sha256(d).hexdigest(); _store[h] = d; return h, len(d)
    def read(self, sha, start=0, stop=None):
        d = _store[sha][start:stop]
        return iter([d])
    def size(self, sha): return len(_store[sha])
from crm.storage.connection_source import ConnectionSource
ConnectionSource.contents = C()
