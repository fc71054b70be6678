"""What can be asked of a gateway, once for both clients: one class a subject, one method an operation, and no I/O.

Whatever changes something carries an idempotency key of its own where the API takes one, so that the client can repeat
it when its answer got lost.
"""
