"""The plan: proposed columns, lanes that share all records, legal property names."""

from __future__ import annotations

import pytest

from pyjms.demo.plan import ELSE, InputError, Record, Table, Value, make_plan


def table(columns: str, *rows: tuple[Value, ...]) -> Table:
    records = tuple(Record(id=number, values=row) for number, row in enumerate(rows, 1))
    return Table(name="orders.csv", columns=tuple(columns.split()), records=records)


ORDERS = table(
    "order city price",
    (1001, "Rome", 10),
    (1002, "Rome", 2.5),
    (1003, "Oslo", None),
    (1004, None, 4),
    (1005, "Lima", 1),
    (1006, "Rome", 0),
    (1007, "Oslo", 3),
)


def test_columns_are_proposed() -> None:
    plan = make_plan(ORDERS)
    assert (plan.route_names, plan.amount_name) == ("city", "price")


def test_named_columns_are_taken() -> None:
    plan = make_plan(ORDERS, route=["price", "city", "price"], amount="order")
    assert (plan.route_names, plan.amount_name) == ("price, city", "order")


@pytest.mark.parametrize("names", [{"route": ["town"]}, {"amount": "town"}])
def test_a_column_that_is_not_there_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(InputError, match="no column 'town'; it has: order, city, price"):
        make_plan(ORDERS, **names)  # type: ignore[arg-type]  # parametrised keywords


def test_text_cannot_be_added_up() -> None:
    with pytest.raises(InputError, match="record 1: city is 'Rome', which cannot be added up"):
        make_plan(ORDERS, amount="city")


def test_without_numbers_records_are_counted() -> None:
    plan = make_plan(table("city", ("Rome",), ("Oslo",)))
    assert plan.amount_name == "records"
    assert [plan.amount_of(record) for record in plan.table.records] == [1, 1]


def test_an_empty_amount_is_zero() -> None:
    plan = make_plan(ORDERS)
    assert [plan.amount_of(record) for record in ORDERS.records] == [10, 2.5, 0, 4, 1, 0, 3]


def test_the_most_frequent_values_get_lanes() -> None:
    plan = make_plan(ORDERS, lanes=2)
    assert [lane.name for lane in plan.lanes] == ["Rome", "Oslo", ELSE]
    assert [plan.lane_of(record).name for record in ORDERS.records] == [
        "Rome",
        "Rome",
        "Oslo",
        ELSE,
        ELSE,
        "Rome",
        "Oslo",
    ]
    assert [lane.selector for lane in plan.lanes] == [
        "city = 'Rome'",
        "city = 'Oslo'",
        "city IS NULL OR city NOT IN ('Rome', 'Oslo')",
    ]


def test_a_missing_value_may_have_a_lane() -> None:
    plan = make_plan(ORDERS, lanes=4)
    lane = plan.lane_of(ORDERS.records[3])
    assert (lane.name, lane.selector) == ("(empty)", "city IS NULL")
    assert plan.lanes[-1].selector == "city NOT IN ('Rome', 'Oslo', 'Lima')"  # unknown, not true, without a value


def test_several_columns_are_turned_round_one_by_one() -> None:
    plan = make_plan(ORDERS, route=["city", "price"], lanes=7)
    selectors = {lane.name: lane.selector for lane in plan.lanes}
    assert selectors["Oslo / (empty)"] == "city = 'Oslo' AND price IS NULL"
    assert "(city IS NULL OR city NOT IN ('Oslo') OR price IS NOT NULL)" in selectors[ELSE]
    assert "(city IS NOT NULL OR price IS NULL OR price NOT IN ('4'))" in selectors[ELSE]


def test_without_lanes_everything_goes_one_way() -> None:
    plan = make_plan(ORDERS, lanes=0)
    assert [lane.name for lane in plan.lanes] == [ELSE]


def test_quotation_marks_in_values_are_doubled() -> None:
    plan = make_plan(table("city n", ("L'Aquila", 1), ("Rome", 2)), route=["city"])
    assert plan.lanes[0].selector == "city = 'L''Aquila'"


def test_what_routes_is_text() -> None:
    plan = make_plan(ORDERS, route=["order"])
    assert plan.properties_of(ORDERS.records[1]) == {"order": "1002", "city": "Rome", "price": 2.5}


def test_property_names_are_legal_and_distinct() -> None:
    columns = "and unit-price unit_price JMSType 2nd größe amount record_id _x"
    plan = make_plan(table(columns, (*range(9),)))
    assert plan.properties == (
        "and_",
        "unit_price",
        "unit_price_",
        "c_JMSType",
        "c_2nd",
        "gr__e",
        "amount_",
        "record_id_",
        "c__x",
    )


def test_the_desk_knows_each_kind() -> None:
    plan = make_plan(ORDERS, labels={"Rome": "Roma"})
    kind = plan.kinds[("Rome",)]
    assert (kind.label, kind.records, kind.total) == ("Roma", 3, 12.5)
    assert plan.label_of(ORDERS.records[2]) == "Oslo"


def test_completeness_is_seen() -> None:
    plan = make_plan(ORDERS)
    assert [plan.is_complete(record) for record in ORDERS.records] == [True, True, False, False, True, True, True]


def test_the_same_plan_has_the_same_fingerprint_and_another_has_another() -> None:
    assert make_plan(ORDERS).fingerprint == make_plan(ORDERS).fingerprint
    others = [
        make_plan(ORDERS, lanes=1),
        make_plan(ORDERS, amount="order"),
        make_plan(ORDERS, route=["order"]),
        make_plan(ORDERS, labels={"Rome": "Roma"}),
        make_plan(table("order city price", (1001, "Rome", 10), (1002, "Rome", 2))),
    ]
    assert len({make_plan(ORDERS).fingerprint, *(plan.fingerprint for plan in others)}) == 6
