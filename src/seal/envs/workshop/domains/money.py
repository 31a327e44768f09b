"""Money: accounts that hold dollars, and bills that are found by company and then paid."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.goals import Draw, Goal, Intent, NaturalCall, NoFit
from seal.envs.workshop.state import Table, Tables
from seal.envs.workshop.tools import DOLLARS, WORD, Arguments, Lookup, Tool, ToolError, choice, existing


def _balance(tables: Tables, args: Arguments) -> str:
    return f"balance {existing(tables['accounts'], args['person'], 'account')['balance']}"


def _send(tables: Tables, args: Arguments) -> str:
    sender = existing(tables["accounts"], args["sender"], "account")
    receiver = existing(tables["accounts"], args["receiver"], "account")
    left = sender["balance"]
    assert isinstance(left, int)
    if left < args["amount"]:
        raise ToolError(f"error: balance {left} is too low")
    sender["balance"] = left - args["amount"]
    receiver["balance"] = int(str(receiver["balance"])) + args["amount"]
    return f"sent to {args['receiver']}"


def _limit(tables: Tables, args: Arguments) -> str:
    existing(tables["accounts"], args["person"], "account")["limit"] = args["amount"]
    return f"limit of {args['person']} set"


def _find(tables: Tables, args: Arguments) -> str:
    for key, bill in tables["bills"].items():
        if bill["company"] == args["company"]:
            return f"{key} of {bill['amount']}"
    raise ToolError(f"error: no bill of {args['company']}")


def _pay(tables: Tables, args: Arguments) -> str:
    bill = existing(tables["bills"], args["bill"], "bill")
    if bill["paid"]:
        raise ToolError(f"error: {args['bill']} is paid")
    bill["paid"] = args["payment"]
    return f"paid {args['bill']}"


def _start(draw: Draw) -> Tables:
    people = draw.sample("person", draw.size + 1)
    accounts: Table = {person: {"balance": draw.rng.choice((70, 80, 90)), "limit": 0} for person in people}
    bills: Table = {
        f"b{number}": {"company": company, "amount": int(draw.any("amount")), "paid": ""}
        for company, number in zip(draw.sample("company"), draw.sample("number"), strict=False)
    }
    return {"accounts": accounts, "bills": bills}


def _draw_balance(draw: Draw) -> Intent:
    person, _ = draw.pick("accounts")
    return Intent({"person": person}, (NaturalCall("get_balance", {"person": person}),))


def _draw_send(draw: Draw) -> Intent:
    sender, _ = draw.pick("accounts", lambda account: int(str(account["balance"])) >= 70)
    receiver, _ = draw.pick("accounts")
    amount = draw.any("amount")
    call = NaturalCall("send_money", {"sender": sender, "receiver": receiver, "amount": int(amount)})
    return Intent({"sender": sender, "receiver": receiver, "amount": amount}, (call,))


def _draw_limit(draw: Draw) -> Intent:
    person, _ = draw.pick("accounts")
    amount = draw.any("amount")
    call = NaturalCall("set_limit", {"person": person, "amount": int(amount)})
    return Intent({"person": person, "amount": amount}, (call,))


def _draw_find(draw: Draw) -> Intent:
    key, bill = draw.pick("bills")
    company = str(bill["company"])
    return Intent({"company": company}, (NaturalCall("find_bill", {"company": company}),), key)


def _draw_pay(draw: Draw) -> Intent:
    key, bill = draw.pick("bills", lambda b: not b["paid"])
    company, payment = str(bill["company"]), draw.option("payment")
    calls = (
        NaturalCall("find_bill", {"company": company}),
        NaturalCall("pay_bill", {"bill": key, "payment": payment}),
    )
    return Intent({"company": company, "payment": payment}, calls, key)


def _draw_pay_that(draw: Draw) -> Intent:
    key = draw.that("bills")
    if draw.state["money"]["bills"][key]["paid"]:
        raise NoFit
    payment = draw.option("payment")
    return Intent({"payment": payment}, (NaturalCall("pay_bill", {"bill": key, "payment": payment}),))


MONEY = Domain(
    name="money",
    tools=(
        Tool("get_balance", "get the balance of a person", {"person": WORD}, _balance),
        Tool(
            "send_money",
            "send money",
            {"sender": WORD, "receiver": WORD, "amount": DOLLARS},
            _send,
            Lookup("get_balance", "person", "sender"),
        ),
        Tool("set_limit", "set the limit of a person", {"person": WORD, "amount": DOLLARS}, _limit),
        Tool("find_bill", "find the bill of a company", {"company": WORD}, _find),
        Tool("pay_bill", "pay a bill", {"bill": WORD, "payment": choice("payment")}, _pay),
    ),
    goals=(
        Goal(
            "balance",
            _draw_balance,
            (
                "tell me the balance [of {person}]",
                "find out what [{person}] has",
                "get me the balance [of {person}]",
                "check the balance [of {person}]",
                "tell me what is in the account [of {person}]",
            ),
            ("check the account [of {person}]",),
        ),
        Goal(
            "transfer",
            _draw_send,
            (
                "send [{amount} dollars] from {sender} [to {receiver}]",
                "transfer [{amount} dollars] of {sender} [to {receiver}]",
                "give [{receiver}] [{amount} dollars] from {sender}",
                "wire [{amount} dollars] from {sender} [to {receiver}]",
                "send [{amount} dollars] out of the account of {sender} [to {receiver}]",
            ),
            ("wire [{amount} dollars] out of the account of {sender} [to {receiver}]",),
        ),
        Goal(
            "limit",
            _draw_limit,
            (
                "set the limit of {person} [to {amount} dollars]",
                "allow {person} [up to {amount} dollars]",
                "give {person} a limit [of {amount} dollars]",
                "cap {person} [at {amount} dollars]",
                "set the spending limit of {person} [to {amount} dollars]",
            ),
            ("cap the spending of {person} [at {amount} dollars]",),
        ),
        Goal(
            "bill",
            _draw_find,
            (
                "find the bill [for {company}]",
                "look up the [{company}] bill",
                "show me the bill [of {company}]",
                "check the bill [of {company}]",
                "find the [{company}] invoice",
            ),
            ("check the invoice [for {company}]",),
        ),
        Goal(
            "pay",
            _draw_pay,
            (
                "pay the {company} bill [by {payment}]",
                "settle the bill for {company} [by {payment}]",
                "pay for {company} [by {payment}]",
                "clear the bill for {company} [by {payment}]",
                "pay the {company} invoice [using {payment}]",
            ),
            ("clear the {company} invoice [using {payment}]",),
        ),
        Goal(
            "pay_that",
            _draw_pay_that,
            (
                "pay that bill [by {payment}]",
                "settle it [by {payment}]",
                "pay it now [by {payment}]",
                "clear it [by {payment}]",
                "settle that invoice [using {payment}]",
            ),
            ("clear that invoice [using {payment}]",),
            follows=True,
        ),
    ),
    start=_start,
)
