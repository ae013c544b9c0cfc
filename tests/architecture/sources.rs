//! A crate's modules, read from its sources: the declarations, imports and mentions in each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Item, UseTree};

use crate::scan::{self, Mention};

/// The modules in a crate. The first is its root.
pub struct Crate {
    pub modules: Vec<Module>,
    /// Text by file path below the workspace's folder.
    pub files: BTreeMap<PathBuf, String>,
}

/// A module, in a file of its own or inline.
pub struct Module {
    /// The names from the crate's root down to this module.
    pub path: Vec<String>,
    /// The module's file, below the workspace's folder.
    pub file: PathBuf,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    /// Names of items that the module itself defines.
    pub items: BTreeSet<String>,
    /// Names that `use` brings in, with the paths they stand for.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Paths in `use …::*`.
    pub globs: Vec<Vec<String>>,
    /// Every path in the module's code, including `use` items.
    pub mentions: Vec<Mention>,
}

impl Crate {
    /// Reads a crate whose folder is `folder` below the workspace's `root`.
    pub fn read(root: &Path, folder: &str) -> Self {
        let mut reader = Reader {
            root,
            parsed: Self {
                modules: Vec::new(),
                files: BTreeMap::new(),
            },
        };
        let folder = Path::new(folder).join("src");
        reader.read_file(Vec::new(), None, folder.join("lib.rs"), &folder);
        reader.parsed
    }
}

struct Reader<'a> {
    root: &'a Path,
    parsed: Crate,
}

impl Reader<'_> {
    /// Reads a module's file; its children are in `folder`.
    fn read_file(
        &mut self,
        path: Vec<String>,
        parent: Option<usize>,
        file: PathBuf,
        folder: &Path,
    ) -> usize {
        let text = std::fs::read_to_string(self.root.join(&file))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let syntax =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.parsed.files.insert(file.clone(), text);
        self.read_items(Module::new(path, parent, file), syntax.items, folder)
    }

    fn read_items(&mut self, module: Module, items: Vec<Item>, folder: &Path) -> usize {
        let index = self.parsed.modules.len();
        self.parsed.modules.push(module);
        for item in items
            .into_iter()
            .filter(|item| !is_test_only(attributes(item)))
        {
            match item {
                Item::Mod(child) => self.read_child(index, child, folder),
                item => self.parsed.modules[index].add(&item),
            }
        }
        index
    }

    fn read_child(&mut self, parent: usize, child: syn::ItemMod, folder: &Path) {
        let name = child.ident.to_string();
        let Module { path, file, .. } = &self.parsed.modules[parent];
        let (path, file) = (
            [path.as_slice(), std::slice::from_ref(&name)].concat(),
            file.clone(),
        );
        let folder_of_child = folder.join(&name);
        let index = if let Some((_, items)) = child.content {
            self.read_items(
                Module::new(path, Some(parent), file),
                items,
                &folder_of_child,
            )
        } else {
            let beside = folder.join(format!("{name}.rs"));
            let file = if self.root.join(&beside).exists() {
                beside
            } else {
                folder_of_child.join("mod.rs")
            };
            self.read_file(path, Some(parent), file, &folder_of_child)
        };
        self.parsed.modules[parent].children.insert(name, index);
    }
}

impl Module {
    fn new(path: Vec<String>, parent: Option<usize>, file: PathBuf) -> Self {
        Self {
            path,
            file,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            mentions: Vec::new(),
        }
    }

    fn add(&mut self, item: &Item) {
        if let Item::Use(item) = item {
            return self.import(&item.tree, &[]);
        }
        self.items.extend(name(item));
        scan::mentions(item.to_token_stream(), &mut self.mentions);
    }

    fn import(&mut self, tree: &UseTree, prefix: &[String]) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(tree) => self.import(&tree.tree, &with(&tree.ident)),
            UseTree::Name(tree) if tree.ident == "self" => {
                let name = prefix.last().expect("`self` stands in a group").clone();
                self.add_import(name, prefix.to_vec(), tree.ident.span());
            }
            UseTree::Name(tree) => {
                self.add_import(tree.ident.to_string(), with(&tree.ident), tree.ident.span());
            }
            UseTree::Rename(tree) => self.add_import(
                tree.rename.to_string(),
                with(&tree.ident),
                tree.ident.span(),
            ),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| self.import(tree, prefix)),
            UseTree::Glob(tree) => {
                self.globs.push(prefix.to_vec());
                self.mentions
                    .push(Mention::new(prefix.to_vec(), tree.star_token.spans[0]));
            }
        }
    }

    fn add_import(&mut self, name: String, path: Vec<String>, span: proc_macro2::Span) {
        self.mentions.push(Mention::new(path.clone(), span));
        self.imports.insert(name, path);
    }
}

/// Returns whether an item is compiled for tests only.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.to_token_stream().to_string() == "# [cfg (test)]")
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
