"""`python -m crm …`"""

from crm.cli import main

main()
