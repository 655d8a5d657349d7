"""`python -m crm …`"""

from crm.start import main

main()
