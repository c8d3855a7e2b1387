public import FoundationEssentials
internal import LupineIO
package import LupineRules

/// A cookie as it is kept (RFC 6265bis). A value; equal if every attribute is.
///
/// Its description leaves the value out, because that is a secret.
public struct Cookie: Sendable, Hashable {
  /// Whether a cookie is sent with requests that are made for another site (RFC 6265bis section 5.6.7). It matters only to requests with
  /// `Request.setMainDocument(_:)`; without one every request is same-site.
  public enum SameSite: Sendable, Hashable {
    /// The server did not say: as `lax`.
    case unspecified
    /// Sent in any case; the cookie must be `Secure`.
    case none
    /// Sent within the site. (Browsers also send it when somebody follows a link; a client without windows has no such requests.)
    case lax
    /// Sent within the site.
    case strict
  }

  package let record: CookieRecord

  package init(_ record: CookieRecord) {
    self.record = record
  }

  /// Makes a cookie; `CookieStorage.setCookie(_:)` checks it.
  ///
  /// - Parameters:
  ///   - name: without `=`, `;` and control bytes.
  ///   - value: without `;` and control bytes.
  ///   - domain: the host; a leading dot is the same as `includesSubdomains`.
  ///   - path: requests for this path and below get the cookie.
  ///   - includesSubdomains: whether hosts below the domain get it too.
  ///   - expires: nil: it ends with the session, that is with the storage, unless that is saved.
  ///   - isSecure: only https requests get it.
  ///   - isHTTPOnly: kept for programs that show cookies to scripts; nothing here depends on it.
  ///   - sameSite: what other sites may do.
  public init(
    name: String, value: String, domain: String, path: String = "/", includesSubdomains: Bool = false,
    expires: Date? = nil, isSecure: Bool = false, isHTTPOnly: Bool = false, sameSite: SameSite = .unspecified
  ) {
    let hasDot = domain.utf8.first == UInt8(ascii: ".")
    record = CookieRecord(
      name: name, value: value, domain: hasDot ? String(domain.dropFirst()) : domain,
      isHostOnly: !includesSubdomains && !hasDot, path: path, isSecure: isSecure, isHTTPOnly: isHTTPOnly,
      sameSite: LupineRules.SameSite(sameSite), expiry: expires.map { HTTPDate($0) }, created: .current)
  }

  /// The name; may be empty, then only the value is sent.
  public var name: String { record.name }
  /// The value as it came, quotation marks included.
  public var value: String { record.value }
  /// The host that gets it, without a leading dot; see `includesSubdomains`.
  public var domain: String { record.domain }
  /// Whether hosts below the domain get it too.
  public var includesSubdomains: Bool { !record.isHostOnly }
  /// Requests for this path and below get it.
  public var path: String { record.path }
  /// Only https requests get it.
  public var isSecure: Bool { record.isSecure }
  /// It is not for scripts.
  public var isHTTPOnly: Bool { record.isHTTPOnly }
  /// What other sites may do.
  public var sameSite: SameSite { SameSite(record.sameSite) }
  /// When it ends, at most 400 days after it came; nil: with the session.
  public var expires: Date? { record.expiry.map { Date(timeIntervalSince1970: Double($0.seconds)) } }
  /// When it came, or the cookie whose place it took.
  public var created: Date { Date(timeIntervalSince1970: Double(record.created.seconds)) }
  /// It ends with the session.
  public var isSessionOnly: Bool { record.expiry == nil }
}

extension Cookie: CustomStringConvertible {
  /// Everything but the value.
  public var description: String {
    let domain = includesSubdomains ? ".\(domain)" : domain
    return "\(name)=*** for \(domain)\(path)\(isSecure ? ", Secure" : "")\(isHTTPOnly ? ", HttpOnly" : "")"
  }
}

extension Cookie: CustomDebugStringConvertible, CustomReflectable {
  /// Everything but the value.
  public var debugDescription: String { description }
  /// Without the value.
  public var customMirror: Mirror { Mirror(self, children: ["description": description]) }
}

extension Cookie.SameSite {
  init(_ rule: LupineRules.SameSite) {
    switch rule {
    case .unspecified: self = .unspecified
    case .none: self = .none
    case .lax: self = .lax
    case .strict: self = .strict
    }
  }
}

extension LupineRules.SameSite {
  init(_ choice: Cookie.SameSite) {
    switch choice {
    case .unspecified: self = .unspecified
    case .none: self = .none
    case .lax: self = .lax
    case .strict: self = .strict
    }
  }
}

extension HTTPDate {
  /// Of the system's clock.
  static var current: HTTPDate { HTTPDate(seconds: EventLoop.wallClockNanoseconds() / 1_000_000_000) }

  /// To the second; a date beyond all bounds is the bound.
  init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    self.init(seconds: Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max))
  }
}
