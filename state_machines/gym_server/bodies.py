"""What requests must look like. A body with an unknown field, or one of the wrong type, is refused with 422."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from protocol.identity import IDENTITY_LIMIT, Attempt, Receipt

IDENTITY: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")
INDEX_LIMIT: Final = 1 << 31

Identity = Annotated[str, Field(min_length=1, max_length=128, pattern=IDENTITY.pattern)]
Index = Annotated[int, Field(ge=0, lt=INDEX_LIMIT)]


def _finite(value: Any) -> Any:
    """A deadline is a number: also a whole one, and not a word."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class OfAttempt(Strict):
    """A body about one attempt."""

    rollout_id: Identity
    attempt_index: Index = 0

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.rollout_id, self.attempt_index)


class Control(Strict):
    """What every control operation carries: the id and an absolute deadline, in seconds since the epoch."""

    schema_version: Literal[1] = 1
    checkpoint_id: Identity
    deadline_ts: Annotated[float, BeforeValidator(_finite), Field(allow_inf_nan=False)]


class InDirectory(Control):
    checkpoint_dir: Annotated[str, Field(min_length=1, max_length=4096)]


class RetireBody(Control, OfAttempt):
    pass


class ReceiptBody(Strict):
    """A completion receipt, exactly: every field takes part in the comparison."""

    rollout_id: Identity
    attempt_index: Index
    execution_generation: Annotated[int, Field(ge=1, lt=INDEX_LIMIT)]
    result_identity: Annotated[str, Field(min_length=1, max_length=IDENTITY_LIMIT)]
    result_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    manifest_capture_key: str | None = None
    terminal_model_call_id: str | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> "ReceiptBody":
        if (self.manifest_capture_key is None) != (self.terminal_model_call_id is None):
            raise ValueError("manifest_capture_key and terminal_model_call_id are both null, or both set")
        return self

    def receipt(self) -> Receipt:
        return Receipt(**self.model_dump())


class Batch(Strict):
    """`acknowledge-completed`: not empty, no key twice."""

    schema_version: Literal[1] = 1
    executions: Annotated[list[ReceiptBody], Field(min_length=1)]

    @model_validator(mode="after")
    def _no_key_twice(self) -> "Batch":
        if len({(r.rollout_id, r.attempt_index) for r in self.executions}) != len(self.executions):
            raise ValueError("an execution is named twice")
        return self

    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(body.receipt() for body in self.executions)


class Run(BaseModel):
    """A `/run`: the agent's own fields are its own business."""

    model_config = ConfigDict(extra="allow")

    rollout_id: Annotated[Identity | None, Field(alias="_ng_rollout_id")] = None
    attempt_index: Annotated[Index, Field(alias="_ng_attempt_index")] = 0


class FinishBody(OfAttempt):
    """`result` absent: the agent's own, `{"id": "p0_g1/0"}`. Null: a result for which there is no receipt."""

    result: Any = None


class OfCheckpoint(Strict):
    checkpoint_id: Identity


class RestartBody(Strict):
    """`keep`: what is on disk survives. `retire`: the policy axis of that name, from now on."""

    keep: bool = True
    retire: Literal["refuse", "release"] = "refuse"


class Nothing(Strict):
    """A body without fields."""
