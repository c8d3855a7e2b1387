// OpenSSL headers, and one-line wrappers for the macros that Swift cannot import.
#ifndef CLUPINE_OPENSSL_H
#define CLUPINE_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#endif
