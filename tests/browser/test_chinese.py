"""The day of an approver who reads Chinese: chosen in the menu, from the inbox to the receipt."""

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import barriers

pytestmark = [pytest.mark.browser]


@pytest.fixture
def asked(product):
    """A bulk price change that asks its first question; its id."""
    operation = product.submit("pricing", "bulk_price_change", {"percent": 5}, node=f"chinese-{uuid.uuid4()}")
    product.reached(operation, "INPUT_REQUIRED")
    return operation


def test_a_whole_approval_in_chinese(product, visit, asked):
    """Inbox, a form with an error, both rounds, the receipt; also what the script writes by itself is Chinese."""
    ada = visit("ada", "/approvals/")
    ada.locator(".me summary").click()
    ada.get_by_label("Language").select_option("zh-hans")
    ada.get_by_role("button", name="Keep these").click()
    expect(ada.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(ada.get_by_role("heading", level=1)).to_have_text("审批")

    ada.locator(f"#open-{asked}-1").click()
    expect(ada.locator("time[data-tick=left]").first).to_have_text(re.compile(r"^\d+\s(分钟|秒)"))
    ada.get_by_role("button", name="提交", exact=True).click()
    expect(ada.locator("main")).to_contain_text("什么都没有发送")
    ada.get_by_label("Garden (412 products)").check()
    ada.get_by_label("留档备注").fill("先改园艺类")
    ada.get_by_role("button", name="提交", exact=True).click()
    expect(ada.locator("#round-state")).to_contain_text("你的答复")
    expect(ada.locator("#round-state")).to_contain_text("已存储、投递并确认")

    ada.get_by_role("link", name="打开第 2 轮").click()
    ada.get_by_role("radio", name="是", exact=True).check()
    ada.get_by_role("button", name="提交", exact=True).click()
    product.reached(asked, "ACCEPTED")
    ada.goto(f"/operations/{asked}/?tab=receipt")
    expect(ada.locator("#op-badge")).to_have_text("已验收")
    expect(ada.locator("main")).to_contain_text("调用节点有且只有一份回执")


@pytest.mark.parametrize("width", [1280, 390])
def test_in_chinese_nothing_stands_in_anybodys_way(visit, asked, width):
    """No rule of axe is broken and no page is wider than its window; a browser that asks for Chinese gets it."""
    window = {"viewport": {"width": width, "height": 844}}
    ada = visit("ada", "/approvals/", locale="zh-CN", reduced_motion="reduce", **window)
    pages = [
        "/",
        "/approvals/",
        f"/approvals/{asked}/1/",
        "/operations/",
        f"/operations/{asked}/",
        "/reconcile/",
        "/help/",
    ]

    for address in pages:
        ada.goto(address)
        expect(ada.locator("html")).to_have_attribute("lang", "zh-hans")
        assert barriers(ada) == [], address
        assert ada.evaluate("document.documentElement.scrollWidth") <= width, address
