"""HTTP to addresses that an agency's people have written down: which addresses may be reached (`addresses.py`), and a
client that reaches no others (`client.py`).

Servers that the operator has not chosen are asked through here.
"""
