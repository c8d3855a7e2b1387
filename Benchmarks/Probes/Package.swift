// swift-tools-version: 6.2
import PackageDescription

// The smallest programs that embed Lupine: what they link, how big they are and whether they run in an empty chroot is checked by
// `.ci/check-linkage` and `.ci/check-static`; QuickStart is the README's (`.ci/check-readme`). They see products only, as embedders do.
let package = Package(
  name: "LupineProbes",
  dependencies: [.package(name: "Lupine", path: "../..")],
  targets: [
    .executableTarget(
      name: "WireProbe",
      dependencies: [.product(name: "LupineWire", package: "Lupine")],
      swiftSettings: [.swiftLanguageMode(.v6)]),
    .executableTarget(
      name: "SessionProbe",
      dependencies: [.product(name: "LupineSession", package: "Lupine")],
      swiftSettings: [.swiftLanguageMode(.v6)]),
    .executableTarget(
      name: "QuickStart",
      dependencies: [
        .product(name: "LupineSession", package: "Lupine"), .product(name: "LupineTesting", package: "Lupine"),
      ],
      swiftSettings: [.swiftLanguageMode(.v6)]),
  ]
)
