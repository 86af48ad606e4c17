"""Probing: a report card of any model, from scripted tasks in every tool mode.

`tasks.py` holds the tasks, `judge.py` decides whether an answer solves one, `prober.py` sends the
requests, and `card.py` and `card_svg.py` show the result. `toolbridge probe` is the command.
"""
