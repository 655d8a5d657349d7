#!/bin/sh
# segno writes a Cyrillic text into a QR code as Shift JIS, and OpenCV reads other characters from it.
#
# Expected: segno.make("Стол дубовый") is a code in UTF-8, which every reader shows as it is: the
# documentation of `encoding` says that ISO/IEC 8859-1 is tried, and then UTF-8.
# What happens: a text of letters that Shift JIS has, as Russian ones are, is stored in Shift JIS, in
# the mode "byte" and without an ECI that would say so. A text with one other letter, such as the
# Ukrainian і, is stored in UTF-8. OpenCV's reader gives control characters and Latin letters for the
# first, without an error; zxing-cpp guesses the encoding, and gives the text.
# Versions: segno 1.6.6, opencv-python-headless 5.0.0.93, zxing-cpp 3.1.1.
# For a CRM: a QR code of a product's name or of a payment's purpose; make(…, encoding="utf-8") helps.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  segno==1.6.6 opencv-python-headless==5.0.0.93 zxing-cpp==3.1.1 numpy==2.4.6 pillow
export PYTHONUTF8=1

cat > codes.py <<'PY'
import cv2
import segno
import zxingcpp

for text in ("Стол дубовый", "Дубовий стіл"):
    for options in ({}, {"encoding": "utf-8"}):
        code = segno.make(text, micro=False, **options)
        code.save("code.png", scale=8)
        picture = cv2.imread("code.png")
        read, _, _ = cv2.QRCodeDetector().detectAndDecode(picture)
        (barcode,) = zxingcpp.read_barcodes(picture)
        encodings = ("utf-8", "shift_jis")
        stored = next(name for name in encodings if text.encode(name, "replace") == barcode.bytes)
        print(f"{text}, make({options or ''}): mode {code.mode}, bytes in {stored}")
        print(f"  OpenCV {read!a}" if read != text else "  OpenCV reads the text")
        print("  zxing-cpp reads the text" if barcode.text == text else f"  zxing-cpp {barcode.text!a}")
PY
expected="Стол дубовый, make(): mode byte, bytes in shift_jis
  OpenCV '\\x84R\\x84\\x84\\x84\\x80\\x84| \\x84t\\x84\\x85\\x84q\\x84\\x80\\x84r\\x84\\x8d\\x84z'
  zxing-cpp reads the text
Стол дубовый, make({'encoding': 'utf-8'}): mode byte, bytes in utf-8
  OpenCV reads the text
  zxing-cpp reads the text
Дубовий стіл, make(): mode byte, bytes in utf-8
  OpenCV reads the text
  zxing-cpp reads the text
Дубовий стіл, make({'encoding': 'utf-8'}): mode byte, bytes in utf-8
  OpenCV reads the text
  zxing-cpp reads the text"
seen=$(venv/bin/python codes.py 2>&1) || :
echo "segno 1.6.6 makes QR codes of Cyrillic texts, OpenCV 5.0.0 and zxing-cpp 3.1.1 read them"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: segno stores Cyrillic texts otherwise" >&2; exit 1; }
