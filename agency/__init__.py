"""Durable multi-agent threads. This list is the public surface of the library."""

from agency.approvals.always import always_approved
from agency.approvals.decisions import ApproveResult
from agency.approvals.pending import PendingToolCall
from agency.approvals.rules import Policy, Rule, risk_of
from agency.children.family import told
from agency.define.asides import Aside
from agency.define.blueprint import Blueprint, ModelChoice
from agency.define.code import CallTool, CodeResult, CodeRunner
from agency.define.context import ToolContext
from agency.define.files import FileKeeper
from agency.define.hooks import ChildLink, ChildReport, HookContext, Middleware, Plan, ProcessContext, RunEnd
from agency.define.options import RunOptions, ToolFilter
from agency.define.outside import OutsideWait
from agency.define.results import ToolResult
from agency.define.state import StateEditor
from agency.define.system import AgentSystem
from agency.define.tools import RetryPolicy, Tool, tool
from agency.errors import (
    AgencyError,
    Damaged,
    DefinitionError,
    HookFailed,
    InvalidInput,
    KeyReused,
    ModelError,
    NewerStore,
    NotAThreadStore,
    NotFound,
    RunFailed,
    RunUnfinished,
    StaleActivation,
    StorageFull,
    StoreError,
    ToolError,
    VersionConflict,
    WrongState,
)
from agency.events import Event, EventType
from agency.local import LocalRuntime, open_thread
from agency.messages import Image, Message, ToolCall, Usage
from agency.metadata import ForkInfo, ParentInfo, RequestContext, ThreadMetadata
from agency.models.interface import Capability, Model, ModelParams, ModelRequest, OnDelta, ToolSpec
from agency.models.providers.entry import Price, Provider
from agency.observe.metrics import MetricsObserver, Snapshot
from agency.observe.observers import Follower, Observation, Observer, Resumed
from agency.runtime import Runtime
from agency.secrets import Secret, secret
from agency.shelves.interface import ABSENT, ShelfEntry, ShelfInfo, ShelfItem, ShelfPage, ShelfStore
from agency.shelves.shelf import Shelf
from agency.store.draft import Draft
from agency.thread.outside import Settlement
from agency.thread.protocols import AnyThread, ThreadMaker
from agency.thread.results import RunResult
from agency.thread.thread import Thread
from agency.thread.views import Accepted, RunEnvelope, RunState, ThreadState
from agency.turn.effects import Ask, ModelReply
from agency.turn.outcomes import (
    Always,
    Approve,
    Decision,
    Deferred,
    Deny,
    Edit,
    Fail,
    Finish,
    Handoff,
    Happened,
    OnTimeout,
    Rerun,
    Respond,
    Risk,
)
from agency.turn.state import Limits

__all__ = [
    "ABSENT",
    "Accepted",
    "AgencyError",
    "AgentSystem",
    "Always",
    "AnyThread",
    "Approve",
    "ApproveResult",
    "Aside",
    "Ask",
    "Blueprint",
    "CallTool",
    "Capability",
    "ChildLink",
    "ChildReport",
    "CodeResult",
    "CodeRunner",
    "Damaged",
    "Decision",
    "Deferred",
    "DefinitionError",
    "Deny",
    "Draft",
    "Edit",
    "Event",
    "EventType",
    "Fail",
    "FileKeeper",
    "Finish",
    "Follower",
    "ForkInfo",
    "Handoff",
    "Happened",
    "HookContext",
    "HookFailed",
    "Image",
    "InvalidInput",
    "KeyReused",
    "Limits",
    "LocalRuntime",
    "Message",
    "MetricsObserver",
    "Middleware",
    "Model",
    "ModelChoice",
    "ModelError",
    "ModelParams",
    "ModelReply",
    "ModelRequest",
    "NewerStore",
    "NotAThreadStore",
    "NotFound",
    "Observation",
    "Observer",
    "OnDelta",
    "OnTimeout",
    "OutsideWait",
    "ParentInfo",
    "PendingToolCall",
    "Plan",
    "Policy",
    "Price",
    "ProcessContext",
    "Provider",
    "RequestContext",
    "Rerun",
    "Respond",
    "Resumed",
    "RetryPolicy",
    "Risk",
    "Rule",
    "RunEnd",
    "RunEnvelope",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "RunState",
    "RunUnfinished",
    "Runtime",
    "Secret",
    "Settlement",
    "Shelf",
    "ShelfEntry",
    "ShelfInfo",
    "ShelfItem",
    "ShelfPage",
    "ShelfStore",
    "Snapshot",
    "StaleActivation",
    "StateEditor",
    "StorageFull",
    "StoreError",
    "Thread",
    "ThreadMaker",
    "ThreadMetadata",
    "ThreadState",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolFilter",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "VersionConflict",
    "WrongState",
    "always_approved",
    "open_thread",
    "risk_of",
    "secret",
    "told",
    "tool",
]
