public import Foundation

/// A security policy that cannot be, or a server that it refuses.
///
/// Of a request that was refused it is the `underlying` error of a `SessionError` with `.serverCertificateUntrusted`: never a cancellation.
public struct SecurityPolicyError: Error, Sendable, Hashable {
  /// What is wrong. More may come: compare, do not switch over all.
  public struct Reason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// A stable name.
    public var rawValue: String

    /// Makes a reason; the known ones are static members.
    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    /// The stable name.
    public var description: String { rawValue }

    // Settings, refused when they are set.

    /// Bytes that are no DER certificate, or a file that holds none.
    public static let badCertificate = Reason(rawValue: "badCertificate")
    /// A file or directory that cannot be read.
    public static let unreadable = Reason(rawValue: "unreadable")
    /// Text that is no pin.
    public static let badPin = Reason(rawValue: "badPin")
    /// A mode that pins, and nothing that it could pin: every server would be refused.
    public static let pinsMissing = Reason(rawValue: "pinsMissing")
    /// Public keys under a mode that compares certificates, or pins nothing: nobody would look at them.
    public static let pinsUnused = Reason(rawValue: "pinsUnused")
    /// A host pattern that is neither a host nor `*.` and a name, or a policy for a host that has host policies itself.
    public static let badHostPolicy = Reason(rawValue: "badHostPolicy")

    /// A policy that pins, for a manager whose base URL is not https.
    public static let insecureBaseURL = Reason(rawValue: "insecureBaseURL")
    /// The session has a transport of the caller's, which asks nobody about certificates: the policy would never be looked at.
    public static let transportDecidesTrust = Reason(rawValue: "transportDecidesTrust")

    /// Names are to be validated although invalid certificates are allowed, and there is no pin that would make that mean anything. A manager and
    /// `SecurityPolicy.setPolicy(_:forHost:)` refuse such a policy when it is set; one that is asked without a manager refuses every server.
    public static let domainNeedsPins = Reason(rawValue: "domainNeedsPins")

    // Servers, refused in the handshake.

    /// The chain leads to no trusted root, or is unsound.
    public static let untrustedChain = Reason(rawValue: "untrustedChain")
    /// A certificate has expired or is not valid yet.
    public static let invalidDate = Reason(rawValue: "invalidDate")
    /// The certificate names other hosts, or names this one by a wildcard although an authority of its chain may not vouch for it (RFC 5280
    /// section 4.2.1.10).
    public static let hostMismatch = Reason(rawValue: "hostMismatch")
    /// Nothing of the chain is pinned.
    public static let pinMismatch = Reason(rawValue: "pinMismatch")
  }

  /// What is wrong.
  public var reason: Reason
  /// The same in a sentence, for whoever set the policy up.
  public var message: String
  /// The host that was refused; nil if the policy itself is at fault.
  public var host: String?
  /// The keys of the chain, `sha256/…`, the server's own first: what could have been pinned.
  public var foundPins: [String]

  /// Makes an error.
  public init(_ reason: Reason, message: String, host: String? = nil, foundPins: [String] = []) {
    self.reason = reason
    self.message = message
    self.host = host
    self.foundPins = foundPins
  }
}

extension SecurityPolicyError: LocalizedError, CustomStringConvertible {
  /// For people. Of a server that was refused, AFNetworking's words for `NSURLErrorServerCertificateUntrusted` (−1202); else the message.
  public var errorDescription: String? {
    guard let host else { return message }
    return
      "The certificate for this server is invalid. You might be connecting to a server that is pretending to be “\(host)” "
      + "which could put your confidential information at risk."
  }

  /// Host, reason and message, and the keys that were found.
  public var description: String {
    (host.map { "\($0): " } ?? "") + "\(message) (\(reason))"
      + (foundPins.isEmpty ? "" : "; its keys are \(foundPins.joined(separator: ", "))")
  }
}
