internal import CLupineOpenSSL
internal import Glibc

/// OpenSSL's error queue of this thread. Cleared before each call and drained after each failure, so that no call is ever
/// judged by what an earlier one left behind; but for writes, which are judged by their result (see `drainLast`).
enum OpenSSLError {
  static func clear() {
    // Looking costs a tenth of clearing, and the queue is nearly always empty.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// The first, most specific reason in the queue, in OpenSSL's words; empties the queue.
  static func drain() -> String {
    let code = ERR_get_error()
    ERR_clear_error()
    return text(of: code)
  }

  /// Whether the system has said that it lacks descriptors or memory, of what has just failed. The queue must have been empty before.
  static var isShortage: Bool {
    let code = ERR_peek_error()
    return lupine_err_is_system(code) == 1 && [EMFILE, ENFILE, ENOMEM].contains(lupine_err_reason(code))
  }

  /// The reason of a failed call on a connection as a typed error; empties the queue.
  ///
  /// The queue holds the same failure as seen from each layer, the cipher first. What the TLS layer calls it counts.
  static func drainConnectionFailure() -> TLSError {
    var first: UInt = 0
    var firstOfTLS: UInt = 0
    while true {
      let code = ERR_get_error()
      if code == 0 { break }
      if first == 0 { first = code }
      if firstOfTLS == 0, lupine_err_library(code) == ERR_LIB_SSL { firstOfTLS = code }
    }
    return connectionFailure(firstOfTLS == 0 ? first : firstOfTLS)
  }

  /// The last reason in the queue: as a rule that of the call that has just failed, whatever there was before it. Empties the queue.
  static func drainLast() -> TLSError {
    let code = ERR_peek_last_error()
    ERR_clear_error()
    return connectionFailure(code)
  }

  /// Reasons have numbers of their own in each library: only those of the TLS layer have names here.
  private static func connectionFailure(_ code: UInt) -> TLSError {
    lupine_err_library(code) == ERR_LIB_SSL ? typed(code) : .protocolViolation(reason: text(of: code))
  }

  private static func typed(_ code: UInt) -> TLSError {
    let reason = lupine_err_reason(code)
    switch reason {
    case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_NO_PROTOCOLS_AVAILABLE, SSL_R_VERSION_TOO_LOW, SSL_R_UNKNOWN_PROTOCOL,
      SSL_R_INAPPROPRIATE_FALLBACK, SSL_AD_REASON_OFFSET + 70:
      return .noCommonVersion
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
      return .badRecord
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
      return .handshakeMessageTooLarge
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return .untrusted(.missing)
    case SSL_AD_REASON_OFFSET...(SSL_AD_REASON_OFFSET + 255):
      return .alert(TLSAlert(rawValue: UInt8(reason - SSL_AD_REASON_OFFSET)))
    default:
      return .protocolViolation(reason: text(of: code))
    }
  }

  private static func text(of code: UInt) -> String {
    guard code != 0 else { return "no reason given" }
    // What the system said, for example about a file, has no text in OpenSSL's tables.
    if lupine_err_is_system(code) == 1, let reason = unsafe strerror(lupine_err_reason(code)) {
      return unsafe String(cString: reason)
    }
    guard let reason = unsafe ERR_reason_error_string(code) else { return "error \(code)" }
    return unsafe String(cString: reason)
  }
}
