"""Operations of an agency on what waits for people: its approvals, decisions on them, and its policy."""

from __future__ import annotations

from collections.abc import Mapping

from agency.api import bodies as api
from agency.approvals.rules import Policy
from agency.client.operation import Resource, asks, lists
from agency.client.request import Listing, ListPage, Request, body, get, key, listing, post
from agency.turn.outcomes import Decision


class InboxOperations(Resource):
    @lists
    def approvals(self) -> Listing[api.Approval]:
        """Everything in the agency that waits for a person: calls to approve, and limits that are used up."""
        return listing(api.ApprovalPage, f"{self._path}/approvals", lambda found: ListPage(found.approvals, found.next))

    @asks
    def decide(
        self, decisions: Mapping[str, Decision], *, idempotency_key: str | None = None
    ) -> Request[api.DecisionResults]:
        """Decide on calls of any threads, by their `approval_id`s; the answer tells which decisions were refused."""
        wanted = body(api.DecideBody, decisions=decisions, idempotency_key=idempotency_key or key())
        return post(api.DecisionResults, f"{self._path}/approvals", wanted)

    @asks
    def policy(self) -> Request[Policy]:
        """Which calls a person must approve, whatever the blueprints say."""
        return get(Policy, f"{self._path}/policy")

    @asks
    def set_policy(self, policy: Policy) -> Request[Policy]:
        """Set which calls a person must approve. It applies to every model reply from now on. What the owner has set
        holds besides."""
        return post(Policy, f"{self._path}/policy", policy.model_dump_json().encode(), method="PUT")
