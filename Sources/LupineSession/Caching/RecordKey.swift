internal import LupineBase

/// The key of a record by its bytes, as it stands in files. By `==` strings are the same that a server is sent as other bytes, two spellings of a letter
/// for one: what is somebody's would be answered to somebody else. Many combining marks in a row also take long to bring into order.
struct RecordKey: Hashable, Sendable {
  let text: String

  init(_ text: String) { self.text = text }

  static func == (left: RecordKey, right: RecordKey) -> Bool { left.text.hasBytes(of: right.text) }

  func hash(into hasher: inout Hasher) { Self.hash(text, into: &hasher) }

  private static func hash(_ text: String, into hasher: inout Hasher) {
    let bytes = text.utf8.span
    hasher.combine(bytes.count)
    var index = 0
    while index <= bytes.count - 8 {
      hasher.combine(bytes.load(at: index, as: UInt64.self))
      index += 8
    }
    while index < bytes.count {
      hasher.combine(bytes[index])
      index += 1
    }
  }
}
