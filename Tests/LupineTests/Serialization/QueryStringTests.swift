import Foundation
import Lupine
import LupineTestSupport
import Testing

/// One line of the case file.
struct QueryStringCase: Sendable, CustomTestStringConvertible {
  var line: String
  var encoding: QueryEncoding
  var json: String
  var query: String
  var testDescription: String { line }
}

@Suite struct QueryStringTests {
  static let cases: [QueryStringCase] = {
    let lines = (try? CaseText.lines("query-strings.txt", in: .module)) ?? []
    return lines.filter { !$0.isEmpty && !$0.hasPrefix("#") }.map { line in
      var text = String(line)
      var encoding = QueryEncoding()
      for (mark, option) in options where text.hasPrefix("[\(mark)] ") {
        text.removeFirst(mark.count + 3)
        encoding = option
      }
      let parts = text.components(separatedBy: " =>")
      return QueryStringCase(
        line: String(line), encoding: encoding, json: parts[0],
        query: parts.count == 2 ? String(parts[1].drop { $0 == " " }) : "malformed case")
    }
  }()

  private static let options: [(String, QueryEncoding)] = [
    ("plain", QueryEncoding(arrays: .plain)), ("indexed", QueryEncoding(arrays: .indexed)),
    ("literal", QueryEncoding(booleans: .literal)),
  ]

  @Test func thereAreCases() {
    #expect(Self.cases.count > 30)
  }

  /// The same comes of a JSON value, and of the dictionaries and arrays that a program would write.
  @Test(arguments: cases) func vectors(_ item: QueryStringCase) throws {
    let value = try JSONValue(parsing: Data(item.json.utf8))
    #expect(try queryString(from: value, encoding: item.encoding) == item.query)
    #expect(try queryString(from: Self.plain(value), encoding: item.encoding) == item.query)
  }

  private static func plain(_ value: JSONValue) -> any Sendable {
    switch value {
    case .null: Int?.none
    case .bool(let value): value
    case .integer(let value): value
    case .unsigned(let value): value
    case .number(let value): value
    case .string(let value): value
    case .array(let value): value.map { plain($0) }
    case .object(let value): value.mapValues { plain($0) }
    }
  }

  private enum Colour: String, Encodable, Sendable { case red = "r" }
  private struct Point: Encodable, Sendable { var x = 1, y: [Int] = [2, 3] }
  private struct Price: Encodable, Sendable { var amount = Decimal(string: "0.12345678901234567891"), tax = Float(0.1) }
  private struct Opaque: Sendable, CustomStringConvertible { var description: String { "an opaque" } }
  private struct Spot: Encodable, Sendable, CustomStringConvertible {
    var x = 1, at = [Colour.red]
    var description: String { "a spot" }
  }
  private enum Shade: String, Encodable, Sendable, CustomStringConvertible {
    case dark = "d"
    var description: String { "Dark" }
  }
  private struct Broken: Encodable, Sendable, CustomStringConvertible {
    var number = Double.nan
    var description: String { "broken" }
  }

  static let described: [(any Sendable, String)] = [
    (["s": Set(["b", "a"])] as [String: any Sendable], "s=a&s=b"),
    (["s": Set([9, 10])] as [String: any Sendable], "s=10&s=9"),
    (["n": NSNull()] as [String: any Sendable], "n"),
    (["n": String?.none, "m": Int??.some(.none), "o": Int?.some(3)] as [String: any Sendable], "m&n&o=3"),
    (
      ["a": NSNumber(value: true), "b": NSNumber(value: 1), "c": NSNumber(value: 1.5)] as [String: any Sendable],
      "a=1&b=1&c=1.5"
    ),
    ([2: "b", 10: "a"] as [Int: String], "10=a&2=b"),
    (["u": UInt64.max, "i": Int64.min] as [String: any Sendable], "i=-9223372036854775808&u=18446744073709551615"),
    (["u": JSONValue.unsigned(.max)], "u=18446744073709551615"),
    (["f": Float(0.1), "d": 100.0, "n": Double.nan, "z": -0.0] as [String: any Sendable], "d=100&f=0.1&n=nan&z=-0"),
    (["c": CGFloat(2), "d": [CGFloat(0.1)]] as [String: any Sendable], "c=2&d%5B%5D=0.1"),
    (["d": Date(timeIntervalSinceReferenceDate: 0)], "d=2001-01-01%2000%3A00%3A00%20%2B0000"),
    (["o": Opaque()], "o=an%20opaque"),
    (["c": Colour.red], "c=r"),
    (Point(), "x=1&y%5B%5D=2&y%5B%5D=3"),
    (["p": Point()], "p%5Bx%5D=1&p%5By%5D%5B%5D=2&p%5By%5D%5B%5D=3"),
    // A model that has a description, for logs, is sent all the same; what is one value goes by it.
    (Spot(), "at%5B%5D=r&x=1"), ([Spot()], "%5B%5D%5Bat%5D%5B%5D=r&%5B%5D%5Bx%5D=1"),
    (["p": Spot()], "p%5Bat%5D%5B%5D=r&p%5Bx%5D=1"), (["s": Shade.dark], "s=Dark"),
    (["u": URL(filePath: "/a b")], "u=file%3A///a%2520b"),
    (["d": Decimal(string: "0.12345678901234567891")], "d=0.12345678901234567891"),
    // No digit is lost on the way, within a model neither.
    (Price(), "amount=0.12345678901234567891&tax=0.1"), ([Price().amount], "%5B%5D=0.12345678901234567891"),
    (["n": NSDecimalNumber(string: "12345678901234567890123.5")], "n=12345678901234567890123.5"),
    (["f": NSNumber(value: Float(0.1)), "d": NSNumber(value: 0.1)], "d=0.1&f=0.1"),
    (["t": Duration.seconds(2)], "t=2.0%20seconds"),
    (Set(["x"]), "=x"), (["s": Set([Colour.red])], "s=r"),
    (["n": Float16.nan], "n=nan"), (["t": StaticString("s")], "t=s"),
    (["k": "abc".prefix(2)], "k=ab"),
  ]

  @Test(arguments: described.indices) func values(_ index: Int) throws {
    #expect(try queryString(from: Self.described[index].0) == Self.described[index].1)
  }

  /// What Swift describes though nobody has said how: it would be sent with nobody noticing.
  static let refused: [any Sendable] = [
    [("a", "b")] as [(String, String)], ["s": Plain()], Plain(), ["s": Unsaid.newest], ["d": Data("abc".utf8)],
    [Data()], ["b": Broken()], [Unsaid.newest: 1], ["x": [Data(): 1]], ["k": ["a": 1].keys], Set([Unsaid.newest]),
    ["a": 1] as KeyValuePairs,
  ]

  private struct Plain: Sendable { var a = 1 }
  private enum Unsaid: String { case newest = "new" }

  @Test(arguments: refused.indices) func whatNobodyCanExpressIsRefused(_ index: Int) throws {
    let error = #expect(throws: SerializationError.self) { try queryString(from: Self.refused[index]) }
    #expect(error?.code == .requestSerializationFailed)
  }

  /// One level more than the limit is an error, however the levels are made; the limit itself is fine.
  @Test func nestingIsLimited() throws {
    func nested(_ levels: Int, _ wrap: (any Sendable) -> any Sendable) -> any Sendable {
      var value: any Sendable = 1
      for _ in 0..<levels { value = wrap(value) }
      return value
    }
    let limit = QueryEncoding.maximumDepth
    for wrap in [{ ["k": $0] }, { [$0] }] as [(any Sendable) -> any Sendable] {
      _ = try queryString(from: nested(limit, wrap))
      let error = #expect(throws: SerializationError.self) { try queryString(from: nested(limit + 1, wrap)) }
      #expect(error?.code == .requestSerializationFailed)
    }
    var value = JSONValue.integer(1)
    for _ in 0...limit { value = .array([value]) }
    #expect(throws: SerializationError.self) { try queryString(from: value) }
  }

  /// A long list costs in proportion to what is written: four times as many elements take nothing like sixteen times as long.
  @Test func lengthIsNoTrouble() throws {
    // The best of three: others may want the processor as well.
    func leastTime(_ count: Int) throws -> Duration {
      let list = Array(repeating: 1, count: count)
      var times: [Duration] = []
      for _ in 1...3 {
        let start = ContinuousClock.now
        let query = try queryString(from: ["key": list])
        times.append(ContinuousClock.now - start)
        #expect(query.utf8.count == count * "key%5B%5D=1&".utf8.count - 1)
      }
      return try #require(times.min())
    }
    let (few, many) = (try leastTime(50_000), try leastTime(200_000))
    #expect(many < few * 10, "\(few) and \(many)")
  }
}
