internal import Foundation
internal import LupineRules

/// How parameters become a query string, where servers disagree.
public struct QueryEncoding: Sendable, Hashable, Codable {
  /// How the elements of an array are told from one another.
  public enum ArrayStyle: String, Sendable, Hashable, Codable {
    /// `key[]=a&key[]=b`: AFNetworking, Rails, PHP. The default.
    case brackets
    /// `key=a&key=b`: most others.
    case plain
    /// `key[0]=a&key[1]=b`.
    case indexed
  }

  /// How booleans are written.
  public enum BooleanStyle: String, Sendable, Hashable, Codable {
    /// `1` and `0`, as AFNetworking does. The default.
    case numeric
    /// `true` and `false`.
    case literal
  }

  /// Default `.brackets`.
  public var arrays: ArrayStyle
  /// Default `.numeric`.
  public var booleans: BooleanStyle

  /// AFNetworking's rules, unless told otherwise.
  public init(arrays: ArrayStyle = .brackets, booleans: BooleanStyle = .numeric) {
    self.arrays = arrays
    self.booleans = booleans
  }

  /// How deep dictionaries, arrays and sets may be nested.
  public static let maximumDepth = ParameterTree.depthLimit

  var lists: QueryFlattener.ListStyle {
    switch arrays {
    case .brackets: .brackets
    case .plain: .plain
    case .indexed: .indexed
    }
  }
}

/// Escapes a name or a value for a query: every byte of its UTF-8 except letters, digits and `-._~/?` becomes `%XX`; what is escaped already is
/// escaped again.
///
/// Source: `AFPercentEscapedStringFromString`; RFC 3986 section 3.4.
public func percentEscaped(_ text: String) -> String { QueryEscaping.escaped(text) }

/// Parameters as a query string, `a[b][]=1&c=2` with everything escaped.
///
/// - Dictionaries: members sorted by their keys' description, level by level; a nested key is written `parent[child]`.
/// - Arrays: in order, as `encoding` says. Sets: sorted by description, the same key for every element.
/// - Nil and `NSNull`: the bare key. Empty dictionaries, arrays and sets: nothing.
/// - Numbers: shortest form, `1.0` as `1`; booleans as `encoding` says; `JSONValue` by its case.
/// - An `Encodable` that has members, as the JSON it encodes to, and so one without a description; anything else by its description,
///   if its type has one (`CustomStringConvertible`). What the encoder throws is thrown. `Data` is refused: send it in a form with files, or encode it.
/// - A value that stands alone has an empty key: `=value`.
///
/// - Throws: `SerializationError` with `.requestSerializationFailed` for more than `QueryEncoding.maximumDepth` levels, and for what is refused.
///
/// Source: `AFQueryStringFromParameters`.
public func queryString(
  from parameters: any Sendable, encoding: QueryEncoding = QueryEncoding()
) throws(SerializationError) -> String {
  try queryString(from: parameters, encoding: encoding, by: ParameterTreeBuilder(booleans: encoding.booleans))
}

func queryString(
  from parameters: any Sendable, encoding: QueryEncoding, by builder: ParameterTreeBuilder
) throws(SerializationError) -> String {
  let tree = try builder.tree(parameters, depth: 0)
  do {
    return try QueryFlattener.query(of: tree, lists: encoding.lists)
  } catch {
    throw ParameterTreeBuilder.tooDeep
  }
}
