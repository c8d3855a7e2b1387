internal import Foundation
internal import HTTPTypes

extension HTTPRequestSerializer {
  /// The headers that every request gets unless it has them. Names differ in more than case; a request's own fields win.
  ///
  /// Setting replaces them all; see `setValue(_:forHeader:)` for names and values that cannot be sent.
  ///
  /// Source: `HTTPRequestHeaders`.
  public var headers: [String: String] {
    get { Dictionary(fields.map { ($0.name.rawName, $0.value) }) { first, second in "\(first), \(second)" } }
    set {
      fields = HTTPFields()
      refusedHeaders = []
      for (name, value) in newValue { setValue(value, forHeader: name) }
    }
  }

  /// Sets a header, whatever the case of its name; nil removes it.
  ///
  /// A name that is no token, or a value with control characters, is not sent: the next request is refused with a `SerializationError`, until the
  /// header is set again or removed.
  public mutating func setValue(_ value: String?, forHeader name: String) {
    refusedHeaders.remove(name.lowercased())
    guard let fieldName = HTTPField.Name(name) else {
      if value != nil { refusedHeaders.insert(name.lowercased()) }
      return
    }
    guard let value else {
      fields[fieldName] = nil
      return
    }
    guard HTTPField.isValidValue(value) else {
      fields[fieldName] = nil
      refusedHeaders.insert(name.lowercased())
      return
    }
    fields[fieldName] = value
  }

  /// The value of a header, whatever the case of its name; nil if it is not set.
  public func value(forHeader name: String) -> String? {
    HTTPField.Name(name).flatMap { fields[$0] }
  }

  /// Sets `Authorization: Basic …` (RFC 7617), in UTF-8.
  ///
  /// Sent to whatever host a request goes to; a credential for an origin alone is `Request.credential`.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for a colon in the user name or control characters in either, which the
  ///   scheme cannot express.
  public mutating func setAuthorization(username: String, password: String) throws(SerializationError) {
    guard !username.utf8.contains(UInt8(ascii: ":")) else {
      throw SerializationError(
        .requestSerializationFailed, message: "A user name for Basic authentication has no colon (RFC 7617 2).")
    }
    guard !(username + password).unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
      throw SerializationError(
        .requestSerializationFailed,
        message: "A user name or password for Basic authentication has no control characters (RFC 7617 2).")
    }
    setValue("Basic " + Data("\(username):\(password)".utf8).base64EncodedString(), forHeader: "Authorization")
  }

  /// Sets `Authorization: Bearer …` (RFC 6750 section 2.1).
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for a token that is empty or has anything but visible ASCII characters.
  public mutating func setAuthorization(bearerToken token: String) throws(SerializationError) {
    guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      throw SerializationError(
        .requestSerializationFailed, message: "A bearer token consists of visible ASCII characters (RFC 6750 2.1).")
    }
    setValue("Bearer \(token)", forHeader: "Authorization")
  }

  /// Removes `Authorization`.
  public mutating func clearAuthorization() {
    setValue(nil, forHeader: "Authorization")
  }
}
