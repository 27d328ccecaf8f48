"""Who is who: ids, capture keys, the digest and the identity of a result, and which results have a receipt (gym.md)."""

import hashlib

import pytest

from protocol.identity import Attempt, Receipt, digest, locate, model_receipt, receipt_for, rollout_id

A = Attempt("p7_g0", 1)
SHA = hashlib.sha256(b'{"a":[1,2],"b":"\\u00e9"}').hexdigest()


def test_ids_and_capture_keys_follow_the_convention():
    assert rollout_id(7, 0) == "p7_g0"
    assert locate("p7_g12") == (7, 12)
    assert Attempt("p7_g0", 0).capture_key == "p7_g0"
    assert A.capture_key == "p7_g0-a1"
    assert str(A) == "p7_g0/1"


@pytest.mark.parametrize("text", ["", "p7", "7_g0", "p7_g", "p_g0", "p7_g-1", "p07_g0", "p7_g0x", "x7_g0", "p٣_g0"])
def test_any_other_text_is_no_rollout_id(text):
    with pytest.raises(ValueError, match=f"^{text!r} is not a rollout id of the form p<group>_g<sibling>$"):
        locate(text)


def test_the_digest_is_of_sorted_compact_ascii_json():
    assert digest({"b": "é", "a": [1, 2]}) == SHA


@pytest.mark.parametrize(
    ("result", "identity"),
    [
        ({"id": "r1", "response": {"id": "r2"}}, "r1"),
        ({"response": {"id": "r2"}}, "r2"),
        ({"id": "", "response": {"id": "r2"}}, "r2"),
        ({"id": 7, "response": {"id": "r2"}}, "r2"),
        ({"id": "x" * 512}, "x" * 512),
        ({"id": "x"}, "x"),
    ],
)
def test_the_identity_is_the_results_id_else_its_responses(result, identity):
    receipt = receipt_for(A, result)
    assert receipt == Receipt("p7_g0", 1, 1, identity, digest(result))
    assert receipt.attempt == A
    assert (receipt.manifest_capture_key, receipt.terminal_model_call_id) == (None, None)


@pytest.mark.parametrize("result", [{"id": "x" * 513}, {"response": "text"}, {"response": {}}, [1], "text", 0, {}])
def test_the_identity_is_else_the_digest(result):
    assert receipt_for(A, result, 3) == Receipt("p7_g0", 1, 3, digest(result), digest(result))


@pytest.mark.parametrize("result", [None, {1, 2}, float("nan"), {"a": object()}])
def test_a_result_that_is_null_or_not_json_has_no_receipt(result):
    assert receipt_for(A, result) is None


def test_the_models_agent_returns_its_own_attempt_as_the_id():
    assert model_receipt(A) == receipt_for(A, {"id": "p7_g0/1"})
