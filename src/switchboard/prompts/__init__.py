"""How the person at this machine is asked: dialogs, pages, and the questions that are open."""
