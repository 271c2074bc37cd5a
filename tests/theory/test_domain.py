import numpy as np
import pytest

from drsim.arrays import ArrayLike
from drsim.errors import ParameterError
from drsim.theory.domain import (
    check_beta,
    check_between,
    check_inside,
    check_positive,
    check_probability,
    check_sample,
    check_shapes,
    check_whole,
    ratio,
    shown,
)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (12, "12"),
        (-0.5, "-0.5"),
        (float("nan"), "nan"),
        (None, "nan"),
        (float("inf"), "inf"),
        (1.0000001, "1.0000001"),
        ([0.2, 0.3, 30.0], "30"),
        (np.array([[0.2], [np.nan]]), "nan"),
    ],
)
def test_probability_outside_its_domain(value: ArrayLike, got: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_probability("recovery", value)
    assert str(caught.value) == f"recovery must lie in [0, 1], got {got}; give a probability, not per cent"


def test_probability_that_is_no_number() -> None:
    with pytest.raises(ParameterError) as caught:
        check_probability("recovery", "half")
    assert str(caught.value) == (
        "recovery must be a number or an array of numbers, got 'half'; give a probability, not per cent"
    )


def test_probabilities_keep_their_shape_and_become_float64() -> None:
    assert check_probability("p", 1).shape == ()
    assert check_probability("p", [[0, 1]]).dtype == np.float64
    assert check_probability("p", np.zeros((2, 0))).shape == (2, 0)
    assert check_probability("p", np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_between("auroc", 0.3, 0.5, 1.0, "turn it"), "auroc must lie in [0.5, 1], got 0.3; turn it"),
        (lambda: check_inside("rho", 0, "more"), "rho must lie in (0, 1), got 0; more"),
        (lambda: check_inside("rho", 1, "less"), "rho must lie in (0, 1), got 1; less"),
        (lambda: check_positive("a", np.inf, "less"), "a must be positive and finite, got inf; less"),
        (lambda: check_positive("a", 0.0, "more"), "a must be positive and finite, got 0; more"),
        (
            lambda: check_beta(1.0, -1.0),
            "b must be positive and finite, got -1; give a shape of the beta distribution of success",
        ),
        (lambda: check_whole("n", 2.5, 1, "round"), "n must be a whole number from 1 on, got 2.5; round"),
        (lambda: check_whole("n", 0, 1, "more"), "n must be a whole number from 1 on, got 0; more"),
        (lambda: check_whole("n", np.inf, 1, "less"), "n must be a whole number from 1 on, got inf; less"),
        (lambda: check_whole("n", 9, 1, "less", upper=8), "n must be a whole number from 1 to 8, got 9; less"),
        (
            lambda: check_shapes(p=np.zeros(3), r=np.zeros((2, 2))),
            "p, r must have shapes that broadcast, got (3,), (2, 2); give scalars or arrays of one shape",
        ),
        (
            lambda: check_sample([0.1, np.inf], [0, 1]),
            "scores must be finite, got inf; leave out steps without a score",
        ),
        (lambda: check_sample([0.1], [0.5]), "failed must be 0 or 1, got 0.5; set aside unjudged runs"),
        (
            lambda: check_sample([0.1, 0.2], [True]),
            (
                "scores and failed must be two lists of one length, 1 or more, got shapes (2,) and (1,); "
                "give one score and one outcome for each"
            ),
        ),
        (
            lambda: check_sample([], []),
            (
                "scores and failed must be two lists of one length, 1 or more, got shapes (0,) and (0,); "
                "give one score and one outcome for each"
            ),
        ),
    ],
)
def test_messages(check: object, message: str) -> None:
    assert callable(check)
    with pytest.raises(ParameterError) as caught:
        check()
    assert str(caught.value) == message


def test_ratio_is_nan_for_shares_of_nothing() -> None:
    np.testing.assert_array_equal(
        ratio(np.array([0.0, 1.0]), np.array([[0.0], [4.0]])), [[np.nan, np.nan], [0.0, 0.25]]
    )
    assert isinstance(ratio(np.array(1.0), np.array(2.0)), float)


def test_numbers_are_shown_in_full() -> None:
    assert [shown(x) for x in (12, 0.1, 1e-20, -0.0)] == ["12", "0.1", "1e-20", "-0"]
