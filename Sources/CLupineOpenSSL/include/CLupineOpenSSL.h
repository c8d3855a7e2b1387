// OpenSSL headers, and one-line wrappers for the macros that Swift cannot import.
#ifndef CLUPINE_OPENSSL_H
#define CLUPINE_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#if defined(OPENSSL_IS_BORINGSSL) || defined(LIBRESSL_VERSION_NUMBER) || OPENSSL_VERSION_NUMBER < 0x30000000L
#error "Lupine needs the headers of OpenSSL 3.0 or later, as of Debian 12, Ubuntu 22.04, RHEL 9 and newer ones"
#endif

// Library
static inline void lupine_initialise(void) {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
}

// BIO
static inline void lupine_bio_set_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline void lupine_bio_clear_retry_flags(BIO *bio) { BIO_clear_retry_flags(bio); }

// SSL_CTX
static inline void lupine_ctx_set_hygiene(SSL_CTX *ctx) {
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
  // Since 3.2: the memory for a compressed chain is as large as the peer says (CVE-2025-66199), whatever the limit of a message.
  SSL_CTX_set_options(ctx, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION | SSL_OP_NO_TX_CERTIFICATE_COMPRESSION);
#endif
}
static inline void lupine_ctx_set_read_ahead(SSL_CTX *ctx) { SSL_CTX_set_read_ahead(ctx, 1); }
static inline long lupine_ctx_set_min_version(SSL_CTX *ctx, int version) { return SSL_CTX_set_min_proto_version(ctx, version); }
static inline long lupine_ctx_set_max_version(SSL_CTX *ctx, int version) { return SSL_CTX_set_max_proto_version(ctx, version); }
static inline long lupine_ctx_set_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_mode(ctx, mode); }
static inline long lupine_ctx_set_session_cache_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_session_cache_mode(ctx, mode); }
static inline long lupine_ctx_set_groups(SSL_CTX *ctx, const char *groups) { return SSL_CTX_set1_groups_list(ctx, groups); }
static inline long lupine_ctx_set_max_cert_list(SSL_CTX *ctx, long bytes) { return SSL_CTX_set_max_cert_list(ctx, bytes); }
static inline long lupine_ctx_add_chain_cert(SSL_CTX *ctx, X509 *certificate) { return SSL_CTX_add1_chain_cert(ctx, certificate); }

// SSL
static inline long lupine_ssl_set_host_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name); }
static inline int lupine_ssl_set_retry_verify(SSL *ssl) { return SSL_set_retry_verify(ssl) > 0; }
static inline const char *lupine_ssl_cipher_name(const SSL *ssl) { return SSL_get_cipher_name(ssl); }
static inline long lupine_ssl_negotiated_group(SSL *ssl) { return SSL_get_negotiated_group(ssl); }

// Errors
static inline int lupine_err_library(unsigned long code) { return ERR_GET_LIB(code); }
static inline int lupine_err_is_system(unsigned long code) { return ERR_SYSTEM_ERROR(code) ? 1 : 0; }
static inline int lupine_err_reason(unsigned long code) { return ERR_GET_REASON(code); }

// Stacks
static inline STACK_OF(X509) *lupine_certificates_new(void) { return sk_X509_new_null(); }
static inline int lupine_certificates_push(STACK_OF(X509) *stack, X509 *certificate) { return sk_X509_push(stack, certificate); }
static inline int lupine_certificates_count(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }
static inline X509 *lupine_certificates_at(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline void lupine_certificates_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }
static inline long lupine_ctx_chain_certs(SSL_CTX *ctx, STACK_OF(X509) **chain) { return SSL_CTX_get0_chain_certs(ctx, chain); }
static inline int lupine_revocation_lists_count(const STACK_OF(X509_CRL) *stack) { return sk_X509_CRL_num(stack); }
static inline X509_CRL *lupine_revocation_lists_at(const STACK_OF(X509_CRL) *stack, int index) { return sk_X509_CRL_value(stack, index); }
static inline void lupine_revocation_lists_free(STACK_OF(X509_CRL) *stack) { sk_X509_CRL_pop_free(stack, X509_CRL_free); }
static inline int lupine_distinguished_names_count(const STACK_OF(X509_NAME) *names) { return names ? sk_X509_NAME_num(names) : 0; }
static inline X509_NAME *lupine_distinguished_names_at(const STACK_OF(X509_NAME) *names, int index) { return sk_X509_NAME_value(names, index); }
static inline int lupine_names_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }
static inline GENERAL_NAME *lupine_names_at(const GENERAL_NAMES *names, int index) { return sk_GENERAL_NAME_value(names, index); }
static inline int lupine_subtrees_count(const STACK_OF(GENERAL_SUBTREE) *subtrees) { return subtrees ? sk_GENERAL_SUBTREE_num(subtrees) : 0; }
static inline GENERAL_SUBTREE *lupine_subtrees_at(const STACK_OF(GENERAL_SUBTREE) *subtrees, int index) { return sk_GENERAL_SUBTREE_value(subtrees, index); }

// Keys (variadic in OpenSSL)
static inline EVP_PKEY *lupine_key_ec(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *lupine_key_ed25519(void) { return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"); }
static inline EVP_PKEY *lupine_key_rsa(size_t bits) { return EVP_RSA_gen(bits); }

// X509V3
static inline void lupine_x509v3_context(X509V3_CTX *context, X509 *issuer, X509 *subject, X509_CRL *crl) {
  X509V3_set_ctx_nodb(context);
  X509V3_set_ctx(context, issuer, subject, NULL, crl, 0);
}

#endif
