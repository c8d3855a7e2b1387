import LupineRules
import Testing

@Suite struct ShellQuotingTests {
  @Test(arguments: [
    ("", "''"), ("plain-1.2/x:@%+=,_", "plain-1.2/x:@%+=,_"), ("=cmd", "'=cmd'"), ("a b", "'a b'"),
    ("it's", #"'it'\''s'"#),
    ("~", "'~'"), ("$HOME `x` \\ ! *?[]{}()<>|&;#\"", "'$HOME `x` \\ ! *?[]{}()<>|&;#\"'"), ("é😀", "'é😀'"),
    ("a\nb", #""$(printf 'a\nb')""#), ("a\n", "'a\n'"), ("a\tb!'%\\", #""$(printf 'a\011b\041\047%%\\')""#),
    ("\u{1b}", #""$(printf '\033')""#),
    ("-\u{7}\n\n", #""$(printf '\055\007')"'"# + "\n\n'"), ("\u{202e}x", #""$(printf '\342\200\256x')""#),
  ]) func arguments(_ text: String, _ quoted: String) {
    #expect(ShellQuoting.argument(Array(text.utf8)) == quoted)
  }

  @Test func bytesThatAreNoTextAreOctal() {
    #expect(ShellQuoting.argument([0x61, 0xFF, 0xC3]) == #""$(printf 'a\377\303')""#)
    #expect(ShellQuoting.argument([0x61, 0x00]) == nil)
    #expect(ShellQuoting.printfFormat([0x00, 0x31]) == #"'\0001'"#)
  }

  @Test(arguments: [
    ("Authorization", "Bearer abc", false, "Bearer [redacted]"), ("authorization", "abc", false, "[redacted]"),
    ("Proxy-Authorization", "Basic x y", false, "Basic [redacted]"), ("Authorization", "a=b c", false, "[redacted]"),
    ("Cookie", "a=1; b=2;c", false, "a=[redacted]; b=[redacted]; [redacted]"),
    ("Set-Cookie", "a=1; Path=/; Secure", false, "a=[redacted]; Path=/; Secure"), ("X-A", "1", true, "[redacted]"),
    ("X-A", "1", false, "1"), ("X-Api-Key", "S", false, "[redacted]"), ("api-key", "S", false, "[redacted]"),
    ("X-AUTH-TOKEN", "S", false, "[redacted]"), ("x-access-token", "S", false, "[redacted]"),
    ("X-Amz-Security-Token", "S", false, "[redacted]"), ("X-Goog-Api-Key", "S", false, "[redacted]"),
    ("PRIVATE-TOKEN", "Bearer S", false, "[redacted]"), ("X-CSRF-Token", "1", false, "1"),
    ("Location", "http://u:p@h/", false, "http://h/"), ("Cookie", "", false, ""),
    ("Set-Cookie", "", false, "[redacted]"), ("Authorization", "", false, "[redacted]"),
    (
      "Set-Cookie", "a=1; Path=/\nsid=S; Path=/\r\nS", false,
      "a=[redacted]; Path=/\nsid=[redacted]; Path=/\r\n[redacted]"
    ), ("Set-Cookie", "a=1;\n", false, "a=[redacted];\n[redacted]"),
    (
      "Link",
      "<https://u:p@h/?sig=S&x=1>; rel=\"next\"; anchor=\"/?sig=S\", <http://v:q@h/a,b?x=2&sig=S#sig=S>;rel=last",
      false,
      "<https://h/?sig=REDACTED&x=1>; rel=\"next\"; anchor=\"/?sig=REDACTED\", <http://h/a,b?x=2&sig=REDACTED#sig=REDACTED>;rel=last"
    ),
    ("link", "</a?sig=S", false, "</a?sig=REDACTED"), ("Link", "<\">?sig=S\"", false, "<\">?sig=REDACTED\""),
    ("Link", "", false, ""), ("Link", "https://u:p@h/?sig=S", false, "https://h/?sig=REDACTED"),
    (":path", "/cb//a@b?access_token=S&state=1", false, "/cb//a@b?access_token=REDACTED&state=1"),
    (":authority", "h", false, "h"),
    ("Location", "https://h/cb#access_token=S&state=1", false, "https://h/cb#access_token=REDACTED&state=1"),
  ]) func fieldsLoseTheirSecrets(_ name: String, _ value: String, _ isSensitive: Bool, _ redacted: String) {
    #expect(SecretText.redacted(field: name, value: value, isSensitive: isSensitive) == redacted)
  }

  /// Written down here, and not asked of the rule.
  @Test(arguments: [
    "access_token", "refresh_token", "id_token", "client_secret", "password", "api_key", "apikey", "sig", "signature",
    "x-amz-signature", "x-amz-security-token", "x-amz-credential", "x-goog-signature", "x-goog-credential",
  ]) func everySecretParameterIsLeftOut(_ name: String) {
    for spelt in [name, name.uppercased()] {
      #expect(SecretText.redacted(url: "http://h/?a=1&\(spelt)=S3CRET&b=2") == "http://h/?a=1&\(spelt)=REDACTED&b=2")
      #expect(SecretText.redacted(url: "http://h/#\(spelt)=S3CRET") == "http://h/#\(spelt)=REDACTED")
    }
    #expect(SecretText.redacted(url: "http://h/?x\(name)=1") == "http://h/?x\(name)=1")
  }
}
