import Foundation
import Lupine
import Testing

/// The rules of `HTTPSessionManager.baseURL`.
@Suite struct BaseURLTests {
  struct Base: Sendable, CustomTestStringConvertible {
    var given: String
    var normal: String
    var testDescription: String { given }
  }

  /// A path that does not end in a slash is given one; an empty one stays; a query stays behind it.
  @Test(arguments: [
    Base(given: "http://h", normal: "http://h/"),
    Base(given: "http://h/", normal: "http://h/"),
    Base(given: "http://h/v1", normal: "http://h/v1/"),
    Base(given: "http://h/v1/", normal: "http://h/v1/"),
    Base(given: "http://h/v1?x=1", normal: "http://h/v1/?x=1"),
    Base(given: "http://h/v1?x=/", normal: "http://h/v1/?x=/"),
    Base(given: "http://h/a/b", normal: "http://h/a/b/"),
    Base(given: "HTTPS://H.EXAMPLE:443/V1", normal: "https://h.example/V1/"),
    Base(given: "http://me:pw@h/v1", normal: "http://me:pw@h/v1/"),
    // No part of a path becomes a host or a scheme.
    Base(given: "https://h//v1", normal: "https://h//v1/"),
    Base(given: "https://h//evil.example/x", normal: "https://h//evil.example/x/"),
    Base(given: "http://u:p@h:81//x?y=1", normal: "http://u:p@h:81//x/?y=1"),
    Base(given: "https://h/a/b:c", normal: "https://h/a/b:c/"),
    Base(given: "http://[::1]:8080", normal: "http://[::1]:8080/"),
    Base(given: "http://[fe80::1%25eth0]", normal: "http://[fe80::1%25eth0]/"),
    Base(given: "http://me:pw@[FE80::1%25eth0]:81/v1", normal: "http://me:pw@[fe80::1%25eth0]:81/v1/"),
  ])
  func normalises(_ base: Base) throws {
    #expect(try HTTPSessionManager(baseURL: base.given).baseURL == base.normal)
  }

  struct Reference: Sendable, CustomTestStringConvertible {
    var base = "http://example.com/v1/"
    var url: String
    var absolute: String
    var testDescription: String { "\(base) + \(url)" }
  }

  /// RFC 3986 5.2, with the table of AFNetworking's header.
  @Test(arguments: [
    Reference(url: "foo", absolute: "http://example.com/v1/foo"),
    Reference(url: "foo?bar=baz", absolute: "http://example.com/v1/foo?bar=baz"),
    Reference(url: "/foo", absolute: "http://example.com/foo"),
    Reference(url: "foo/", absolute: "http://example.com/v1/foo/"),
    Reference(url: "/foo/", absolute: "http://example.com/foo/"),
    Reference(url: "http://example2.com/", absolute: "http://example2.com/"),
    Reference(url: "", absolute: "http://example.com/v1/"),
    Reference(url: "../foo", absolute: "http://example.com/foo"),
    Reference(url: "./a/../b", absolute: "http://example.com/v1/b"),
    Reference(url: "//other/x", absolute: "http://other/x"),
    Reference(url: "?a=b", absolute: "http://example.com/v1/?a=b"),
    Reference(url: "a b", absolute: "http://example.com/v1/a%20b"),
    Reference(url: "京", absolute: "http://example.com/v1/%E4%BA%AC"),
    Reference(base: "http://example.com/v1", url: "foo", absolute: "http://example.com/v1/foo"),
    Reference(base: "http://example.com/v1?x=1", url: "foo", absolute: "http://example.com/v1/foo"),
    Reference(base: "http://me:pw@example.com/v1", url: "foo", absolute: "http://me:pw@example.com/v1/foo"),
    Reference(base: "http://me:pw@example.com/v1", url: "http://b/", absolute: "http://b/"),
    Reference(base: "http://[fe80::1%25eth0]:81/v1", url: "foo", absolute: "http://[fe80::1%25eth0]:81/v1/foo"),
  ])
  func resolves(_ reference: Reference) throws {
    let manager = try HTTPSessionManager(baseURL: reference.base)
    #expect(try manager.absoluteURL(reference.url) == reference.absolute)
  }

  /// The zone of an address stays in copies and archives, the password in copies alone.
  @Test func copiesKeepTheZone() throws {
    let manager = try HTTPSessionManager(baseURL: "http://me:pw@[fe80::1%25eth0]/v1")
    #expect(try HTTPSessionManager(copying: manager).baseURL == "http://me:pw@[fe80::1%25eth0]/v1/")
    let archive = try ManagerArchive(manager)
    #expect(archive.baseURL == "http://[fe80::1%25eth0]/v1/")
    #expect(try HTTPSessionManager(archive: archive).baseURL == "http://[fe80::1%25eth0]/v1/")
  }

  /// What AFNetworking fails every request with, or asserts at, is refused when it is said.
  @Test(arguments: ["www.example.com", "", "ftp://h/", "http://", "http://a b/"])
  func refusesWhatIsNoBase(_ text: String) {
    let error = #expect(throws: SessionError.self) { try HTTPSessionManager(baseURL: text) }
    #expect(error?.code == .badURL)
  }

  /// Without a base, URLs are absolute; anything else fails.
  @Test func withoutABaseURLsAreAbsolute() throws {
    let manager = try HTTPSessionManager()
    #expect(manager.baseURL == nil)
    #expect(try manager.request(.get, "http://h/x").urlString == "http://h/x")
    let error = #expect(throws: SessionError.self) { try manager.request(.get, "x") }
    #expect(error?.code == .badURL)
  }
}
