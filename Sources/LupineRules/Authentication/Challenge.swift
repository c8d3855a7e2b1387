/// One challenge of `WWW-Authenticate` or `Proxy-Authenticate` (RFC 9110 section 11.3): a scheme, and a token or parameters.
package struct Challenge: Hashable, Sendable {
  /// `name=value`; the value without quotes and escapes.
  package struct Parameter: Hashable, Sendable {
    /// Lower-cased.
    package let name: String
    package let bytes: [UInt8]

    package init(name: String, bytes: [UInt8]) {
      self.name = name
      self.bytes = bytes
    }

    /// UTF-8 if the bytes are valid UTF-8, else ISO-8859-1.
    package var text: String {
      String(validating: bytes, as: UTF8.self)
        ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }
  }

  /// Lower-cased.
  package let scheme: String
  /// What stands in the place of parameters.
  package internal(set) var token: String?
  /// In the order of the field; no name twice.
  package internal(set) var parameters: [Parameter]

  package init(scheme: String, token: String? = nil, parameters: [Parameter] = []) {
    self.scheme = scheme
    self.token = token
    self.parameters = parameters
  }

  /// The value of a parameter, its name in small letters.
  package subscript(name: String) -> String? {
    parameters.first { $0.name == name }?.text
  }

  /// The same, if it is UTF-8: what goes back to the server must be what came.
  func exact(_ name: String) throws(DigestRefusal) -> String? {
    guard let bytes = parameters.first(where: { $0.name == name })?.bytes else { return nil }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8(parameter: name) }
    return text
  }
}

/// Why a part of the fields was not understood. Nothing of it is an error of the response: a challenge that cannot be read cannot be answered.
package enum ChallengeFault: Error, Hashable, Sendable {
  /// The fields together have too many bytes: none was read.
  case tooLong(count: Int, limit: Int)
  /// The rest was not read.
  case tooManyChallenges(limit: Int)
  /// The challenge was dropped.
  case tooManyParameters(limit: Int)
  /// A quote is never closed: the challenge and the rest of the field were dropped.
  case unterminatedQuote
  /// A parameter twice in a challenge, which RFC 9110 section 11.2 forbids: whichever we took, somebody else would take the other.
  case duplicateParameter
  /// A parameter before any scheme.
  case missingScheme
  /// A byte that cannot stand there; the challenge was dropped.
  case invalidByte(UInt8)
  /// A value with more combining marks in a row, as a realm or nonce that takes long to compare: the challenge was dropped.
  case tooManyMarks(limit: Int)
}

/// What the fields of one response ask for.
package struct ChallengeList: Hashable, Sendable {
  /// In wire order.
  package internal(set) var challenges: [Challenge] = []
  /// At most `ChallengeReader.maximumFaults`.
  package internal(set) var faults: [ChallengeFault] = []
}
