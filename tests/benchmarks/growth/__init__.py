"""What pages and requests cost in a large tenant beside a small one."""
