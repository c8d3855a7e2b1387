/// Certificates of a policy, which are compared whole and hashed by their lengths and ends. A policy is looked up for each new connection and for each request
/// by way of a proxy, on a loop: the standard library hashes an array byte by byte, and a hundred roots took longer than a handshake.
@propertyWrapper
package struct HashedByEnds: Hashable, Sendable {
  package var wrappedValue: [[UInt8]]

  package init(wrappedValue: [[UInt8]]) {
    self.wrappedValue = wrappedValue
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(endsOf: wrappedValue)
  }
}

extension Hasher {
  /// Of a certificate the end is its signature, of PEM text the last line but the one that says so.
  private static let endLength = 64

  mutating func combine(endsOf list: [[UInt8]]) {
    combine(list.count)
    for bytes in list { combine(endOf: bytes) }
  }

  mutating func combine(endOf bytes: [UInt8]) {
    combine(bytes.count)
    // By words: each value that is combined costs the same.
    var (word, count) = (UInt64(0), 0)
    for byte in bytes.suffix(Self.endLength) {
      word = word << 8 | UInt64(byte)
      count += 1
      if count % 8 == 0 { combine(word) }
    }
    combine(word)
  }
}

extension TLSPolicy.Roots {
  package func hash(into hasher: inout Hasher) {
    switch self {
    case .system: hasher.combine(0)
    case .file(let path):
      hasher.combine(1)
      hasher.combine(path)
    case .directory(let path):
      hasher.combine(2)
      hasher.combine(path)
    case .certificates(let list):
      hasher.combine(3)
      hasher.combine(endsOf: list)
    }
  }
}

extension TLSIdentity.Source {
  package func hash(into hasher: inout Hasher) {
    switch self {
    case .pem(let chain, let privateKey):
      hasher.combine(0)
      hasher.combine(endsOf: [chain, privateKey])
    case .der(let chain, let privateKey):
      hasher.combine(1)
      hasher.combine(endsOf: chain)
      hasher.combine(endOf: privateKey)
    case .files(let chain, let privateKey):
      hasher.combine(2)
      hasher.combine(chain)
      hasher.combine(privateKey)
    }
  }
}
