/// Reads `WWW-Authenticate` and `Proxy-Authenticate` (RFC 9110 section 11.6.1): several challenges in one field and in several.
///
/// A comma separates parameters and challenges alike: what follows it is a parameter if `=` and a value come after the first token, and a
/// new challenge otherwise. `scheme token68` and `scheme name=value` differ in what comes after `=`.
///
/// A malformed challenge is dropped whole, up to the next comma outside quotes that a scheme follows: its other parameters must not be
/// taken for those of a neighbour. Every byte is looked at a bounded number of times, and nothing is kept of what is over a limit.
package struct ChallengeReader {
  /// Bytes of all fields of a response.
  package static let maximumLength = 32 * 1024
  package static let maximumChallenges = 32
  /// Parameters of one challenge.
  package static let maximumParameters = 32
  package static let maximumFaults = 32

  private let bytes: [UInt8]
  private var index = 0
  private var list: ChallengeList
  private var current: Challenge?
  /// The parameters that follow belong to a challenge that was dropped.
  private var isSkipping = false

  private init(_ bytes: [UInt8], _ list: ChallengeList) {
    self.bytes = bytes
    self.list = list
  }

  /// Reads the values of all fields of one name, in wire order.
  package static func read(_ values: some Collection<[UInt8]>) -> ChallengeList {
    var list = ChallengeList()
    let count = values.reduce(0) { $0 + $1.count }
    guard count <= maximumLength else {
      list.faults.append(.tooLong(count: count, limit: maximumLength))
      return list
    }
    for value in values {
      var reader = ChallengeReader(value, list)
      reader.run()
      list = reader.list
    }
    return list
  }

  private mutating func run() {
    while true {
      skip { FieldScanner.isBlank($0) || $0 == UInt8(ascii: ",") }
      guard index < bytes.count else { break }
      guard list.challenges.count + (current == nil ? 0 : 1) <= Self.maximumChallenges else { break }
      do throws(ChallengeFault) {
        try readElement()
      } catch {
        report(error)
        current = nil
        isSkipping = true
        skipElement()
      }
    }
    finishChallenge()
  }

  /// A scheme with what belongs to it, or one more parameter.
  private mutating func readElement() throws(ChallengeFault) {
    let start = index
    skip(while: FieldScanner.isToken)
    guard index > start else { throw .invalidByte(bytes[index]) }
    let name = lowercased(start..<index)
    let nameEnd = index
    skip(while: FieldScanner.isBlank)
    if index < bytes.count, bytes[index] == UInt8(ascii: "=") {
      index += 1
      return try readParameter(name)
    }
    guard index > nameEnd || index == bytes.count || bytes[index] == UInt8(ascii: ",") else {
      throw .invalidByte(bytes[index])
    }
    finishChallenge()
    guard list.challenges.count < Self.maximumChallenges else {
      index = bytes.count
      throw .tooManyChallenges(limit: Self.maximumChallenges)
    }
    isSkipping = false
    current = Challenge(scheme: name)
    guard index < bytes.count, bytes[index] != UInt8(ascii: ",") else { return }
    if let token = readToken68() {
      current?.token = token
      return
    }
    try readFirstParameter()
  }

  private mutating func readFirstParameter() throws(ChallengeFault) {
    let start = index
    skip(while: FieldScanner.isToken)
    let end = index
    skip(while: FieldScanner.isBlank)
    guard end > start, index < bytes.count, bytes[index] == UInt8(ascii: "=") else {
      throw .invalidByte(index < bytes.count ? bytes[index] : UInt8(ascii: " "))
    }
    index += 1
    try readParameter(lowercased(start..<end))
  }

  /// What follows `name =`.
  private mutating func readParameter(_ name: String) throws(ChallengeFault) {
    skip(while: FieldScanner.isBlank)
    let value = try readValue()
    skip(while: FieldScanner.isBlank)
    if index < bytes.count, bytes[index] != UInt8(ascii: ",") { throw .invalidByte(bytes[index]) }
    if isSkipping { return }
    guard let challenge = current else { throw .missingScheme }
    guard challenge.token == nil else { throw .invalidByte(UInt8(ascii: "=")) }
    guard challenge.parameters.count < Self.maximumParameters else {
      throw .tooManyParameters(limit: Self.maximumParameters)
    }
    guard !challenge.parameters.contains(where: { $0.name == name }) else { throw .duplicateParameter }
    guard CombiningMarks.excess(in: value.span, .plain) == nil else { throw .tooManyMarks(limit: CombiningMarks.limit) }
    current?.parameters.append(Challenge.Parameter(name: name, bytes: value))
  }

  /// A quoted string, or what stands there without quotes.
  private mutating func readValue() throws(ChallengeFault) -> [UInt8] {
    guard index < bytes.count, bytes[index] == UInt8(ascii: "\"") else { return try readUnquoted() }
    index += 1
    var value: [UInt8] = []
    var fault: ChallengeFault?
    while index < bytes.count {
      var byte = bytes[index]
      index += 1
      if byte == UInt8(ascii: "\"") {
        if let fault { throw fault }
        return value
      }
      if byte == UInt8(ascii: "\\") {
        guard index < bytes.count else { break }
        byte = bytes[index]
        index += 1
      }
      // Read on to the closing quote: what follows it is to be found.
      if byte < 0x20 && byte != UInt8(ascii: "\t") || byte == 0x7f { fault = fault ?? .invalidByte(byte) }
      value.append(byte)
    }
    throw .unterminatedQuote
  }

  /// A token, and what servers send as if it were one: realms of several words, nonces in Base64. Up to the next comma: a semicolon, or an equals
  /// sign behind a blank, would be of another parameter.
  private mutating func readUnquoted() throws(ChallengeFault) -> [UInt8] {
    let start = index
    var end = start
    var hasBlank = false
    while index < bytes.count, bytes[index] != UInt8(ascii: ",") {
      switch bytes[index] {
      case UInt8(ascii: " "), UInt8(ascii: "\t"): hasBlank = true
      case 0..<0x20, 0x7f, UInt8(ascii: "\""), UInt8(ascii: ";"): throw .invalidByte(bytes[index])
      case UInt8(ascii: "=") where hasBlank: throw .invalidByte(bytes[index])
      default: end = index + 1
      }
      index += 1
    }
    guard end > start else { throw .invalidByte(index < bytes.count ? bytes[index] : UInt8(ascii: "=")) }
    return Array(bytes[start..<end])
  }

  /// A `token68` up to a comma or the end; nil, and nothing read, if that is not what follows.
  private mutating func readToken68() -> String? {
    let start = index
    skip { AuthenticationText.isToken68($0) }
    let length = index - start
    skip { $0 == UInt8(ascii: "=") }
    let end = index
    skip(while: FieldScanner.isBlank)
    guard length > 0, index == bytes.count || bytes[index] == UInt8(ascii: ",") else {
      index = start
      return nil
    }
    return String(decoding: bytes[start..<end], as: UTF8.self)
  }

  // MARK: Steps

  private mutating func finishChallenge() {
    if let challenge = current { list.challenges.append(challenge) }
    current = nil
  }

  private mutating func report(_ fault: ChallengeFault) {
    if list.faults.count < Self.maximumFaults { list.faults.append(fault) }
  }

  private mutating func skip(while predicate: (UInt8) -> Bool) {
    while index < bytes.count, predicate(bytes[index]) { index += 1 }
  }

  /// To the next comma outside quotes. Never back: what was read before a fault is not read again.
  private mutating func skipElement() {
    var isQuoted = false
    while index < bytes.count {
      let byte = bytes[index]
      if byte == UInt8(ascii: ","), !isQuoted { return }
      if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
      if byte == UInt8(ascii: "\\"), isQuoted { index += 1 }
      index += 1
    }
    index = min(index, bytes.count)
  }

  private func lowercased(_ range: Range<Int>) -> String {
    String(decoding: bytes[range], as: UTF8.self).lowercased()
  }
}
