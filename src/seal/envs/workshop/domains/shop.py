"""Shop: prices and stock of items, and orders with identifiers of several tokens (`o-1-2`)."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall, NoFit
from seal.envs.workshop.state import Table, Tables, next_number
from seal.envs.workshop.tools import WORD, Arguments, Lookup, Tool, ToolError, choice, existing, listing, number


def _identifier(value: int) -> str:
    return f"o-{value // 10}-{value % 10}"


def _price(tables: Tables, args: Arguments) -> str:
    return f"{args['item']} costs {existing(tables['stock'], args['item'], 'item')['price']}"


def _list(tables: Tables, args: Arguments) -> str:
    return listing([f"{order['item']} {key} {order['count']}" for key, order in sorted(tables["orders"].items())])


def _order(tables: Tables, args: Arguments) -> str:
    existing(tables["stock"], args["item"], "item")
    key = _identifier(next_number(list(tables["orders"])))
    tables["orders"][key] = {"item": args["item"], "count": args["count"], "carrier": ""}
    return f"ordered {key}"


def _ship(tables: Tables, args: Arguments) -> str:
    order = existing(tables["orders"], args["order"], "order")
    if order["carrier"]:
        raise ToolError(f"error: {args['order']} is on its way")
    order["carrier"] = args["carrier"]
    return f"shipped {args['order']}"


def _cancel(tables: Tables, args: Arguments) -> str:
    existing(tables["orders"], args["order"], "order")
    del tables["orders"][args["order"]]
    return f"canceled {args['order']}"


def _start(draw: Draw) -> Tables:
    stock: Table = {item: {"price": int(draw.any("price"))} for item in draw.sample("item")}
    orders: Table = {
        _identifier(int(number)): {"item": item, "count": int(draw.any("count")), "carrier": ""}
        for item, number in zip(draw.rng.sample(list(stock), len(stock) - 1), draw.sample("number"), strict=False)
    }
    return {"stock": stock, "orders": orders}


def _draw_price(draw: Draw) -> Intent:
    item, _ = draw.pick("stock")
    return Intent({"item": item}, (NaturalCall("get_price", {"item": item}),))


def _draw_list(draw: Draw) -> Intent:
    return Intent({}, (NaturalCall("list_orders", {}),))


def _draw_order(draw: Draw) -> Intent:
    item, _ = draw.pick("stock")
    count = draw.any("count")
    call = NaturalCall("order_item", {"item": item, "count": int(count)})
    return Intent({"item": item, "count": count}, (call,))


def _found(draw: Draw) -> tuple[str, str]:
    """An unused, unshipped order whose item is in no other order: key and item."""
    items = [order["item"] for order in draw.state["shop"]["orders"].values()]
    key, order = draw.pick("orders", lambda o: not o["carrier"] and items.count(o["item"]) == 1)
    return key, str(order["item"])


def _draw_ship(draw: Draw) -> Intent:
    key, item = _found(draw)
    carrier = draw.option("carrier")
    calls = (NaturalCall("list_orders", {}), NaturalCall("ship_order", {"order": key, "carrier": carrier}))
    return Intent({"item": item, "carrier": carrier}, calls, key)


def _draw_cancel(draw: Draw) -> Intent:
    key, item = _found(draw)
    return Intent({"item": item}, (NaturalCall("list_orders", {}), NaturalCall("cancel_order", {"order": key})), key)


def _draw_ship_that(draw: Draw) -> Intent:
    key = draw.that("orders")
    if draw.state["shop"]["orders"][key]["carrier"]:
        raise NoFit
    carrier = draw.option("carrier")
    return Intent({"carrier": carrier}, (NaturalCall("ship_order", {"order": key, "carrier": carrier}),), key)


def _draw_cancel_that(draw: Draw) -> Intent:
    key = draw.that("orders")
    return Intent({}, (NaturalCall("cancel_order", {"order": key}),), key)


SHOP = Domain(
    name="shop",
    tools=(
        Tool("get_price", "get the price of an item", {"item": WORD}, _price),
        Tool("list_orders", "list all orders", {}, _list),
        Tool(
            "order_item",
            "order an item",
            {"item": WORD, "count": number(1, 9)},
            _order,
            Lookup("get_price", "item", "item"),
        ),
        Tool("ship_order", "ship an order", {"order": WORD, "carrier": choice("carrier")}, _ship),
        Tool("cancel_order", "cancel an order", {"order": WORD}, _cancel),
    ),
    goals=(
        Goal(
            "price",
            _draw_price,
            (
                "tell me the price [of {item}]",
                "find out the cost [of {item}]",
                "get me the price [for {item}]",
                "check what [{item}] would be",
                "tell me how expensive [{item}] is",
            ),
            ("check how expensive [{item}] would be",),
        ),
        Goal(
            "orders",
            _draw_list,
            (
                "list all orders",
                "show me the orders",
                "tell me what is ordered",
                "check the orders",
                "list the purchases",
            ),
            ("check the purchases",),
            lists=True,
        ),
        Goal(
            "order",
            _draw_order,
            (
                "order [{count}] {item}",
                "buy [{count}] pieces of {item}",
                "get me [{count}] {item} from the shop",
                "purchase [{count}] pieces of {item}",
                "get [{count}] units of {item} from the shop",
            ),
            ("purchase [{count}] units of {item}",),
        ),
        Goal(
            "ship",
            _draw_ship,
            (
                "ship the order of {item} [by {carrier}]",
                "send out the {item} order [by {carrier}]",
                "deliver the ordered {item} [by {carrier}]",
                "dispatch the ordered {item} [by {carrier}]",
                "deliver the {item} order [using the {carrier}]",
            ),
            ("dispatch the {item} order [using the {carrier}]",),
            lists=True,
        ),
        Goal(
            "cancel_order",
            _draw_cancel,
            (
                "cancel the order of {item}",
                "drop the {item} order",
                "stop the order for {item}",
                "scrap the {item} order",
                "cancel the purchase of {item}",
            ),
            ("scrap the purchase of {item}",),
            lists=True,
        ),
        Goal(
            "ship_that",
            _draw_ship_that,
            (
                "ship that order [by {carrier}]",
                "send it out [by {carrier}]",
                "deliver that order [by {carrier}]",
                "dispatch it [by {carrier}]",
                "ship that purchase [using the {carrier}]",
            ),
            ("dispatch that purchase [using the {carrier}]",),
            follows=True,
        ),
        Goal(
            "cancel_that_order",
            _draw_cancel_that,
            (
                "cancel that order",
                "drop that order again",
                "stop that order",
                "scrap that order again",
                "drop that purchase",
            ),
            ("scrap that purchase",),
            follows=True,
        ),
    ),
    start=_start,
)
