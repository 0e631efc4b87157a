#!/bin/sh
# Signs standard input with a key in a PKCS#11 module: ECDSA P-256 over SHA-256, in DER. For `signer` of a site.toml.
# PKCS11_MODULE, PKCS11_TOKEN, PKCS11_ID and PKCS11_PIN_FILE say which key.
set -eu
: "${PKCS11_MODULE:?the module, such as /usr/lib/softhsm/libsofthsm2.so}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# In the environment, not among the arguments, which every user of the machine can read.
PKCS11_PIN=$(cat "${PKCS11_PIN_FILE:?a file with the PIN}")
export PKCS11_PIN
# Modules that do not hash (SoftHSM) get the digest.
openssl dgst -sha256 -binary -out "$work/digest"
pkcs11-tool --module "$PKCS11_MODULE" --token-label "${PKCS11_TOKEN:-consenso}" --login \
    --pin env:PKCS11_PIN \
    --sign --mechanism ECDSA --signature-format openssl --id "${PKCS11_ID:-01}" \
    --input-file "$work/digest" --output-file "$work/signature" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
cat "$work/signature"
