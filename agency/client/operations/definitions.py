"""Operations of an agency on what its agents are made of: blueprints and model providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from pydantic import JsonValue
from typing_extensions import Unpack

from agency.api import bodies as api
from agency.api.resolved import ResolvedBlueprint
from agency.api.tenancy import BlueprintInfo, ProviderInfo
from agency.client.operation import Resource, asks, lists
from agency.client.request import Listing, ListPage, Request, delete, encoded, listing, post, segment
from agency.define.blueprint import Isolation, ModelChoice
from agency.errors import NotFound
from agency.models.interface import Capability, ModelParams
from agency.models.providers.entry import Provider
from agency.turn.modes import ModeName
from agency.turn.state import Limits


class BlueprintFields(TypedDict, total=False):
    """The fields of a blueprint. When you change one, the fields that you leave out keep their values."""

    description: str
    prompt: str
    tags: Sequence[str]
    tools: Sequence[str]
    middleware: Sequence[str]
    model: str | Sequence[str | ModelChoice] | None
    requires: Sequence[Capability]
    params: ModelParams
    output_schema: Mapping[str, JsonValue] | None
    config: Mapping[str, JsonValue]
    status: Literal["active", "draft", "disabled"]
    limits: Limits
    mode: ModeName
    isolation: Isolation


class DefinitionOperations(Resource):
    @lists
    def blueprints(self) -> Listing[BlueprintInfo]:
        """The agents to create threads for. The agency's own blueprints replace the code's of the same name."""
        return listing(
            api.BlueprintPage,
            f"{self._path}/blueprints",
            lambda found: ListPage(found.blueprints, found.next),
            begin="",
        )

    @asks
    def put_blueprint(self, name: str, **fields: Unpack[BlueprintFields]) -> Request[BlueprintInfo]:
        """Add a blueprint, or change one: fields that you leave out keep their values. New threads use it at once.
        Tags and sections of `config` that the server has nothing for are kept, and its `warnings` name them."""
        return post(BlueprintInfo, f"{self._path}/blueprints", encoded(api.BlueprintChange, {"name": name, **fields}))

    @asks
    def resolve_blueprint(self, name: str, **fields: Unpack[BlueprintFields]) -> Request[ResolvedBlueprint]:
        """What threads of a blueprint would have if you put it so: middleware, tools and models, which tags bring them,
        and why it would be refused. Nothing is stored."""
        wanted = encoded(api.BlueprintChange, {"name": name, **fields})
        return post(ResolvedBlueprint, f"{self._path}/blueprints/resolve", wanted)

    @asks
    def delete_blueprint(self, name: str) -> Request[None]:
        """Delete a blueprint of the agency. The code's blueprint of the same name applies again."""
        return delete(f"{self._path}/blueprints/{segment(name)}", done=NotFound)

    @lists
    def providers(self) -> Listing[ProviderInfo]:
        """The model providers that the agency can use. Its own replace the installation's of the same name."""
        return listing(
            api.ProviderPage, f"{self._path}/providers", lambda found: ListPage(found.providers, found.next), begin=""
        )

    @asks
    def put_provider(self, name: str, entry: Provider) -> Request[ProviderInfo]:
        """Add a provider, or replace one. It applies to every model call that begins from now on."""
        path = f"{self._path}/providers/{segment(name)}"
        return post(ProviderInfo, path, entry.model_dump_json(exclude_unset=True).encode(), method="PUT")

    @asks
    def delete_provider(self, name: str) -> Request[None]:
        """Delete a provider of the agency. The installation's provider of the same name applies again."""
        return delete(f"{self._path}/providers/{segment(name)}", done=NotFound)
