"""Which name a reader of which language sees."""

import pytest

from switchboard.catalog.locales import best, from_environment
from switchboard.catalog.model import Names

REMINDERS = Names((("en", "Reminders"), ("zh-CN", "提醒事项"), ("zh-TW", "提醒事項"), ("ja", "リマインダー")), "en")
SIMPLIFIED_ONLY = Names((("en", "Mail"), ("zh-CN", "邮件")), "en")


@pytest.mark.parametrize(
    ("names", "wanted", "expected"),
    [
        (REMINDERS, "zh-CN", "提醒事项"),
        (REMINDERS, "zh-cn", "提醒事项"),
        (REMINDERS, "zh-TW", "提醒事項"),
        (REMINDERS, "zh-HK", "提醒事項"),
        (REMINDERS, "zh-Hant-MO", "提醒事項"),
        (REMINDERS, "zh-SG", "提醒事项"),
        (REMINDERS, "zh", "提醒事项"),
        (REMINDERS, "ja-JP", "リマインダー"),
        (Names((("zh-CN", "简"), ("zh-Hant-TW", "繁")), "zh-CN"), "zh-TW", "繁"),
        (Names((("zh-CN", "简"), ("zh-Hant-HK", "繁")), "zh-CN"), "zh-Hant", "繁"),
        (Names((("zh", "中"), ("zh-TW", "繁")), "zh"), "zh-HK", "繁"),
        (Names((("zh-TW", "繁"), ("zh-SG", "简")), "zh-TW"), "zh-CN", "简"),
        (REMINDERS, "de", "Reminders"),
        (SIMPLIFIED_ONLY, "zh-TW", "邮件"),
        (Names((("pt-BR", "Correio"), ("en", "Mail")), "en"), "pt-PT", "Correio"),
        (Names((("de", "Post"), ("fr", "Courrier")), "fr"), "ko", "Courrier"),
    ],
)
def test_the_nearest_language_wins(names: Names, wanted: str, expected: str) -> None:
    """Exact, wider, the family (traditional Chinese before simplified), then the app's default."""
    assert best(names, wanted) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "zh_TW.UTF-8"}, "zh-TW"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "ja_JP.eucJP"}, "ja-JP"),
        ({"LANG": "de_DE@euro", "LC_MESSAGES": ""}, "de-DE"),
        ({"LC_ALL": "C", "LANG": "fr_FR"}, "fr-FR"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_comes_from_the_environment(environment: dict[str, str], expected: str) -> None:
    """LC_ALL before LC_MESSAGES before LANG, without encoding and modifier."""
    assert from_environment(environment) == expected


def test_all_names_are_listed_once_with_the_primary_one_first() -> None:
    """A model may look for any of them."""
    names = Names((("zh-CN", "提醒事项"), ("en", "Reminders"), ("en-GB", "Reminders")), "en")

    assert names.all == ("Reminders", "提醒事项")
