"""Ukrainian words in Latin letters, as passports spell them: for labels and addresses (D18)."""

import unicodedata


def transliterate(text: str) -> str:
    """Return the words of a text in lower-case Latin letters and digits, joined by hyphens.

    Signs without Latin letters, such as Chinese characters, are left out.
    """
    composed = unicodedata.normalize("NFC", text.lower()).translate(_APOSTROPHES)
    spaced = "".join(c if c.isalnum() else " " for c in composed)
    words = (_word(word) for word in spaced.split())
    return "-".join(filter(None, words))


def _word(text: str) -> str:
    text = text.replace("зг", "zgh")
    return _FIRST.get(text[0], _letter(text[0])) + "".join(map(_letter, text[1:]))


def _letter(letter: str) -> str:
    if letter in _LATIN:
        return _LATIN[letter]
    return "".join(c for c in unicodedata.normalize("NFKD", letter) if c.isascii() and c.isalnum())


def _pairs(text: str) -> dict[str, str]:
    parts = text.split()
    return dict(zip(parts[::2], parts[1::2], strict=True))


_LATIN = _pairs(
    """
    а a б b в v г h ґ g д d е e є ie ж zh з z и y і i ї i й i к k л l м m н n о o п p р r с s т t
    у u ф f х kh ц ts ч ch ш sh щ shch ю iu я ia ё e ы y э e ß ss æ ae ø o ł l đ d
    """
)
_FIRST = _pairs("є ye ї yi й y ю yu я ya")
_APOSTROPHES = dict.fromkeys(map(ord, "'’ʼ`ьъ"))
