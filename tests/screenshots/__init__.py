"""Pictures of the cabinet for the README, taken of the demo by `python -m tests.screenshots`."""
